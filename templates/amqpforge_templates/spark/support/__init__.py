"""What the columns of all dialects share; not a public interface."""
