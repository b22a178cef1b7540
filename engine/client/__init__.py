"""Admission, the streaming hand-off and the engine as a frontend sees it. The only room that validates a request."""
