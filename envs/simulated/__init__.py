"""World models behind the API of an environment: something else answers the replies, and the policy cannot tell."""
