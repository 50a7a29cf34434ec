CREATE STREAM q20 WITH (KAFKA_TOPIC = 'out') AS
    SELECT b.auction, a.id AS id, a.item AS item, a.seller AS seller, a.category AS category, b.bidder AS bidder,
        b.price AS price, b.time AS time
    FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10;
