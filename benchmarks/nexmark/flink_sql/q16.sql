CREATE TABLE target (
        channel STRING, `day` STRING, `minute` BIGINT,
        bids BIGINT, bids_low BIGINT, bids_middle BIGINT, bids_high BIGINT,
        bidders BIGINT, bidders_low BIGINT, bidders_middle BIGINT, bidders_high BIGINT,
        auctions BIGINT, auctions_low BIGINT, auctions_middle BIGINT, auctions_high BIGINT,
        PRIMARY KEY (channel, `day`) NOT ENFORCED
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT channel, DATE_FORMAT(event_time, 'yyyy-MM-dd'), MAX(`time` / 60000),
        COUNT(*),
        COUNT(*) FILTER (WHERE price < 10000),
        COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000),
        COUNT(*) FILTER (WHERE price >= 1000000),
        COUNT(DISTINCT bidder),
        COUNT(DISTINCT bidder) FILTER (WHERE price < 10000),
        COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000),
        COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000),
        COUNT(DISTINCT auction),
        COUNT(DISTINCT auction) FILTER (WHERE price < 10000),
        COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000),
        COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000)
    FROM bid GROUP BY channel, DATE_FORMAT(event_time, 'yyyy-MM-dd');
