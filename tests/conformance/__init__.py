"""The account of the requirements: which rows of the ledger the tests prove.

`plugin` checks the ``spec`` marks and records what became of the marked tests;
``python -m tests.conformance`` runs them and reports.
The ledger itself is described in ``spec/amqpforge_spec/LEDGER.md``.
"""
