CREATE STREAM days AS SELECT *, FORMAT_TIMESTAMP(FROM_UNIXTIME(time), 'yyyy-MM-dd') AS day FROM bid;
CREATE TABLE q15 WITH (KAFKA_TOPIC = 'out') AS
    SELECT day AS k, AS_VALUE(day) AS day, COUNT(*) AS bids,
        COUNT(CASE WHEN price < 10000 THEN 1 END) AS bids_low,
        COUNT(CASE WHEN price >= 10000 AND price < 1000000 THEN 1 END) AS bids_middle,
        COUNT(CASE WHEN price >= 1000000 THEN 1 END) AS bids_high,
        COUNT_DISTINCT(bidder) AS bidders,
        COUNT_DISTINCT(CASE WHEN price < 10000 THEN bidder END) AS bidders_low,
        COUNT_DISTINCT(CASE WHEN price >= 10000 AND price < 1000000 THEN bidder END) AS bidders_middle,
        COUNT_DISTINCT(CASE WHEN price >= 1000000 THEN bidder END) AS bidders_high,
        COUNT_DISTINCT(auction) AS auctions,
        COUNT_DISTINCT(CASE WHEN price < 10000 THEN auction END) AS auctions_low,
        COUNT_DISTINCT(CASE WHEN price >= 10000 AND price < 1000000 THEN auction END) AS auctions_middle,
        COUNT_DISTINCT(CASE WHEN price >= 1000000 THEN auction END) AS auctions_high
    FROM days GROUP BY day;
