CREATE TABLE target (
        auction BIGINT, bidder BIGINT, dir1 STRING, dir2 STRING, dir3 STRING
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT auction, bidder, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5) FROM bid;
