-- S3: whether the schema has been installed.
select pg_catalog.to_regclass($1) is not null
