CREATE TABLE q19 WITH (KAFKA_TOPIC = 'out') AS
    SELECT auction AS k, AS_VALUE(auction) AS auction, TOPK(price, 10) AS prices FROM bid GROUP BY auction;
