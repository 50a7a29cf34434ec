CREATE TABLE final AS
    SELECT a.id AS id, LATEST_BY_OFFSET(a.category) AS category, MAX(b.price) AS price
    FROM bid b JOIN auction a ON b.auction = a.id WHERE b.time BETWEEN a.time AND a.expires
    GROUP BY a.id;
CREATE TABLE q4 WITH (KAFKA_TOPIC = 'out', KEY_FORMAT = 'JSON') AS
    SELECT category AS k, AS_VALUE(category) AS category, AVG(price) AS average FROM final GROUP BY category;
