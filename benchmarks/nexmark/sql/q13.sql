CREATE TABLE side (key BIGINT PRIMARY KEY, value STRING) WITH (KAFKA_TOPIC = 'side', FORMAT = 'JSON');
CREATE STREAM q13 WITH (KAFKA_TOPIC = 'out') AS
    SELECT s.key, b.auction AS auction, b.price AS price, s.value AS value
    FROM bid b JOIN side s ON b.auction % 2000 = s.key;
