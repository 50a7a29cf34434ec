CREATE TABLE target (
        auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `time` BIGINT, extra STRING
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target SELECT auction, bidder, price, channel, url, `time`, extra FROM bid;
