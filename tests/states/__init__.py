"""The generated state tables, walked from the first state: what the diagrams of the specification ask."""
