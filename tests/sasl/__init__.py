"""SASL mechanisms: the vectors of their RFCs, and what a hostile peer tries."""
