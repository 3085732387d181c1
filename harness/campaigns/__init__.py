"""Campaigns: a matrix of many runs, executed by workers, resumable at any instant.

plan       the campaign file: a base plan, axes, repetitions, budget, policy
loading    reads a campaign file with its base plan
folder     the paths of a campaign's folder
journal    the append-only journal of a campaign: its entries, writing and reading them
progress   the state of every run, from the journal: where `resume` continues
sharing    which cells share a run
demands    which axes must share a run, and which do
order      which run is next
worker     a process that keeps a cluster and executes one run after another on it
processes  the processes of workers
scheduler  assigns runs to workers, and continues whatever happens to one of them
estimate   workers, time and disk that a campaign will take
policy     the exit code of a campaign, by its policy
prune      deletes the bulk of runs that nobody will inspect
"""
