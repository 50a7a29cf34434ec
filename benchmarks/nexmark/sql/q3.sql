CREATE STREAM offers (id BIGINT KEY, seller BIGINT, category BIGINT) WITH (KAFKA_TOPIC = 'auction', FORMAT = 'JSON');
CREATE STREAM q3 WITH (KAFKA_TOPIC = 'out') AS
    SELECT a.seller, p.name AS name, p.city AS city, p.state AS state, a.id AS auction
    FROM offers a JOIN person p ON a.seller = p.id
    WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA');
