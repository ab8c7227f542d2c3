SELECT title, price / NULLIF(sum(price) OVER (), 0) AS share
FROM items
WHERE owner = $1
ORDER BY price DESC
LIMIT 1
