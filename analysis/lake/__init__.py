"""The lake: what many campaigns found, as Delta tables that Spark and other engines read.

sources     the finished runs of a campaign, from its folder or its archive
delta       the tables and their columns, as Delta tables in a folder, here or at a URL
build       adds the rows of a campaign's runs, and only those that are not there yet
query       SQL over the tables, by Spark
stored      campaigns and their cells from the tables alone, with the samples of statistics, and
            digests of plans: which runs may be counted together
overview    rates across versions and trends of all campaigns
"""
