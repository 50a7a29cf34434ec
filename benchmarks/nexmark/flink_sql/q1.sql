CREATE TABLE target (
        auction BIGINT, bidder BIGINT, price DOUBLE, `time` BIGINT
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target SELECT auction, bidder, 0.908E0 * price, `time` FROM bid;
