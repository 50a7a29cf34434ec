-- Chess in SQL: the same topics as examples/chess.py.
CREATE STREAM moves (game STRING KEY, move STRING) WITH (KAFKA_TOPIC = 'moves', VALUE_FORMAT = 'KAFKA');

-- the stream: every move is a fact, with its number in the game
CREATE TABLE replay WITH (KAFKA_TOPIC = 'replay', VALUE_FORMAT = 'KAFKA') AS
    SELECT game, CAST(COUNT(*) AS STRING) + '. ' + LATEST_BY_OFFSET(move) AS turn FROM moves GROUP BY game;

-- the table: all moves so far, applied to one board per game; a king that castles takes its rook along
CREATE TABLE boards WITH (KAFKA_TOPIC = 'boards', VALUE_FORMAT = 'JSON') AS
    SELECT
        game,
        REDUCE(
            COLLECT_LIST(move),
            SPLIT_TO_MAP(
                'a1=R,b1=N,c1=B,d1=Q,e1=K,f1=B,g1=N,h1=R,a2=P,b2=P,c2=P,d2=P,e2=P,f2=P,g2=P,h2=P,'
                    + 'a7=p,b7=p,c7=p,d7=p,e7=p,f7=p,g7=p,h7=p,a8=r,b8=n,c8=b,d8=q,e8=k,f8=b,g8=n,h8=r',
                ',', '='),
            (board, step) => MAP_UNION(
                FILTER(board, (square, piece) =>
                    square <> SUBSTRING(step, 1, 2)
                    AND NOT (LCASE(board[SUBSTRING(step, 1, 2)]) = 'k' AND
                        ((step = 'e1g1' AND square = 'h1') OR (step = 'e1c1' AND square = 'a1')
                        OR (step = 'e8g8' AND square = 'h8') OR (step = 'e8c8' AND square = 'a8')))),
                FILTER(
                    MAP(
                        SUBSTRING(step, 3, 2) := board[SUBSTRING(step, 1, 2)],
                        CASE WHEN step = 'e1g1' THEN 'f1' WHEN step = 'e1c1' THEN 'd1'
                             WHEN step = 'e8g8' THEN 'f8' WHEN step = 'e8c8' THEN 'd8' ELSE '' END
                            := CASE WHEN board[SUBSTRING(step, 1, 2)] = 'K' THEN 'R'
                                    WHEN board[SUBSTRING(step, 1, 2)] = 'k' THEN 'r' ELSE '' END),
                    (square, piece) => square <> '' AND piece <> ''))) AS board
    FROM moves GROUP BY game;
