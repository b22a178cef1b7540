"""Small clients of a running server. They speak HTTP and know no other room but base."""
