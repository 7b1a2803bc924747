"""The broker's stores."""
