CREATE STREAM days AS SELECT *, FORMAT_TIMESTAMP(FROM_UNIXTIME(time), 'yyyy-MM-dd') AS day FROM bid;
CREATE TABLE q17 WITH (KAFKA_TOPIC = 'out', KEY_FORMAT = 'JSON') AS
    SELECT auction AS k1, day AS k2, AS_VALUE(auction) AS auction, AS_VALUE(day) AS day,
        COUNT(*) AS bids,
        COUNT(CASE WHEN price < 10000 THEN 1 END) AS bids_low,
        COUNT(CASE WHEN price >= 10000 AND price < 1000000 THEN 1 END) AS bids_middle,
        COUNT(CASE WHEN price >= 1000000 THEN 1 END) AS bids_high,
        MIN(price) AS low, MAX(price) AS high, AVG(price) AS average, SUM(price) AS total
    FROM days GROUP BY auction, day;
