-- Click stream: clicks enriched with changing user profiles, and with what the user searched just before.
-- The same app as examples/click_stream.py.

CREATE TABLE profiles (visitor STRING PRIMARY KEY, name STRING, city STRING)
    WITH (KAFKA_TOPIC = 'user-profiles', VALUE_FORMAT = 'JSON');
CREATE STREAM searches (visitor STRING KEY, text STRING) WITH (KAFKA_TOPIC = 'searches', VALUE_FORMAT = 'JSON');
CREATE STREAM clicks (visitor STRING KEY, page STRING) WITH (KAFKA_TOPIC = 'clicks', VALUE_FORMAT = 'JSON');

CREATE STREAM activity WITH (KAFKA_TOPIC = 'activity') AS
    SELECT c.visitor AS visitor, page, IFNULL(name, 'guest') AS user, IFNULL(city, '?') AS city, text AS searched
    FROM clicks c
    LEFT JOIN profiles p ON c.visitor = p.visitor
    LEFT JOIN searches s WITHIN (1 SECOND, 0 SECONDS) GRACE PERIOD 500 MILLISECONDS ON c.visitor = s.visitor;

CREATE TABLE clicks_per_city AS SELECT city, COUNT(*) AS clicks FROM activity GROUP BY city;
CREATE TABLE clicks_after_search AS SELECT searched, COUNT(*) AS clicks FROM activity GROUP BY searched;
