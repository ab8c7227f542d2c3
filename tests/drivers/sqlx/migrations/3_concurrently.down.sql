DROP INDEX items_title;
