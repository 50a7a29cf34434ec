CREATE TABLE target (
        auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `time` BIGINT, extra STRING,
        PRIMARY KEY (auction, bidder) NOT ENFORCED
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT auction, bidder, price, channel, url, `time`, extra FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY event_time DESC) AS place FROM bid)
    WHERE place <= 1;
