CREATE TABLE q18 WITH (KAFKA_TOPIC = 'out', KEY_FORMAT = 'JSON') AS
    SELECT bidder AS k1, auction AS k2, AS_VALUE(bidder) AS bidder, AS_VALUE(auction) AS auction,
        LATEST_BY_OFFSET(price) AS price, LATEST_BY_OFFSET(channel) AS channel, LATEST_BY_OFFSET(url) AS url,
        LATEST_BY_OFFSET(time) AS time, LATEST_BY_OFFSET(extra) AS extra
    FROM bid GROUP BY bidder, auction;
