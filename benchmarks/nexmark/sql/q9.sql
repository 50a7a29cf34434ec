CREATE TABLE q9 WITH (KAFKA_TOPIC = 'out') AS
    SELECT a.id AS k, AS_VALUE(a.id) AS id, LATEST_BY_OFFSET(a.item) AS item, LATEST_BY_OFFSET(a.seller) AS seller,
        LATEST_BY_OFFSET(a.category) AS category, TOPK(b.price, b.bidder, b.time, 1)[1]->`col0` AS bidder,
        TOPK(b.price, b.bidder, b.time, 1)[1]->`sort_col` AS price, TOPK(b.price, b.bidder, b.time, 1)[1]->`col1` AS time
    FROM bid b JOIN auction a ON b.auction = a.id WHERE b.time BETWEEN a.time AND a.expires
    GROUP BY a.id;
