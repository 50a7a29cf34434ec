-- Home timelines in SQL: the same topics as examples/home_timelines.py. A tweet in a timeline is text, so that it sorts.
CREATE TABLE tweets (id STRING PRIMARY KEY, author STRING, text STRING, at BIGINT)
    WITH (KAFKA_TOPIC = 'tweets', VALUE_FORMAT = 'JSON');
CREATE TABLE follows (id STRING PRIMARY KEY, follower STRING, author STRING)
    WITH (KAFKA_TOPIC = 'follows', VALUE_FORMAT = 'JSON');

-- the newest twenty tweets of each author
CREATE TABLE by_author AS
    SELECT
        author,
        SLICE(ARRAY_SORT(COLLECT_LIST(LPAD(CAST(at AS STRING), 13, '0') + ' ' + author + ': ' + text), 'DESC'), 1, 20)
            AS tweets
    FROM tweets GROUP BY author;

-- what each author contributes to the timeline of a follower
CREATE TABLE feeds AS
    SELECT f.id AS id, f.follower AS follower, b.tweets AS tweets
    FROM follows f JOIN by_author b ON f.author = b.author;

CREATE TABLE timelines AS
    SELECT
        follower,
        ARRAY_SORT(
            REDUCE(COLLECT_LIST(tweets), ARRAY_REMOVE(ARRAY[''], ''), (all, some) => ARRAY_CONCAT(all, some)), 'DESC')
            AS tweets
    FROM feeds GROUP BY follower;
