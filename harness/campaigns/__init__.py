"""Campaigns: a matrix of many runs, played on workers, resumable at any instant.

plan       the campaign's file: a base plan, axes, repetitions, budget, policy
folder     where a campaign keeps what it made
progress   its append-only journal, and what it tells: the source of every resumption
order      which run is next
worker       a process that keeps a cluster and plays one run after another on it
policy     what its policy makes of its runs: the exit code
prune      thins the runs that nobody will look into
scheduler  deals runs out to workers, and goes on whatever happens to one of them
"""
