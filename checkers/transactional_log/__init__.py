"""The checker of transactions on logs: Jepsen's `kafka` family, and transactions that are torn."""

from checkers.transactional_log.checker import TransactionalLog

__all__ = ["TransactionalLog"]
