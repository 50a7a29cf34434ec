CREATE TABLE target (
        id BIGINT, item STRING, seller BIGINT, category BIGINT, bidder BIGINT, price BIGINT, `time` BIGINT
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT a.id, a.item, a.seller, a.category, b.bidder, b.price, b.`time`
    FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10;
