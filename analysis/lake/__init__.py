"""The lake: what many campaigns found, as Parquet tables that any engine of SQL can read.

schema      the tables and their columns
place       where a lake is: a folder, or a bucket of S3
manifest    lake.json: which files count
sources     the finished runs of a campaign, as the journal and the folders have them
rows        their rows
findings    what checkers found, in the columns of the lake
conditions  digests of plans: which runs may be counted together
parts       one Parquet file of one table
build       adds the rows of a campaign, and only those that are not there yet
stored      a lake that is there: its tables as Arrow and pandas
spark, duck SQL over the tables, by two engines
outcomes    the rows of cells as the outcomes that statistics are made of
campaigns   campaigns with their samples, for trends
overview    rates across versions and trends of all campaigns
"""
