"""The environment `tools/Workflow-v0`: requests that the endpoints of an OpenAPI document settle."""
