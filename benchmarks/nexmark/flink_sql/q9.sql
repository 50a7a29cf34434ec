CREATE TABLE target (
        id BIGINT, item STRING, seller BIGINT, category BIGINT, bidder BIGINT, price BIGINT, `time` BIGINT,
        PRIMARY KEY (id) NOT ENFORCED
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT id, item, seller, category, bidder, price, `time` FROM (
        SELECT a.id, a.item, a.seller, a.category, b.bidder, b.price, b.`time`,
            ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`time` ASC) AS place
        FROM auction a JOIN bid b ON a.id = b.auction AND b.`time` BETWEEN a.`time` AND a.expires)
    WHERE place <= 1;
