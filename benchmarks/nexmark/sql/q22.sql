CREATE STREAM q22 WITH (KAFKA_TOPIC = 'out') AS
    SELECT auction, bidder, SPLIT(url, '/')[4] AS dir1, SPLIT(url, '/')[5] AS dir2, SPLIT(url, '/')[6] AS dir3 FROM bid;
