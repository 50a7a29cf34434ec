CREATE STREAM q2 WITH (KAFKA_TOPIC = 'out') AS SELECT auction, price FROM bid WHERE auction % 123 = 0;
