"""The dialect of Anthropic's Messages API."""
