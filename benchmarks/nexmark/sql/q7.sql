CREATE STREAM keyed AS SELECT 1 AS one, auction, bidder, price, time FROM bid;
CREATE TABLE q7 WITH (KAFKA_TOPIC = 'out') AS
    SELECT one, WINDOWSTART AS start, TOPK(price, auction, bidder, time, 1)[1]->`sort_col` AS number,
        ARRAY[ARRAY[
            TOPK(price, auction, bidder, time, 1)[1]->`col0`, TOPK(price, auction, bidder, time, 1)[1]->`col1`,
            TOPK(price, auction, bidder, time, 1)[1]->`col2`
        ]] AS names
    FROM keyed WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 1 MINUTE) GROUP BY one;
