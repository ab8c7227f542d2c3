DROP TABLE items, owners;
DROP DOMAIN small;
DROP TYPE pair;
DROP TYPE mood;
