"""The ways in: each folder speaks one protocol to the outside and client.AsyncEngine to the inside."""
