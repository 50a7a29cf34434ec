CREATE STREAM q1 WITH (KAFKA_TOPIC = 'out') AS
    SELECT auction, bidder, CAST(0.908 AS DOUBLE) * price AS price, time FROM bid;
