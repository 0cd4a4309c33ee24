"""The layout for models that have no chat template."""

from __future__ import annotations

__all__ = ["PLAIN_STOP", "PLAIN_TEMPLATE"]

# Blocks of `Role: text` with a blank line between them; text is trimmed. The roles' names are not control
# tokens, so a user can write them.
PLAIN_TEMPLATE = """\
{%- set names = {'system': 'System', 'developer': 'System', 'user': 'User', 'assistant': 'Assistant'} -%}
{%- if tools -%}
    {{- raise_exception('the plain layout (the model has no template) takes no tools') -}}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role not in names -%}
        {{- raise_exception('the plain layout (the model has no template) has no role ' ~ message.role) -}}
    {%- endif -%}
    {{- names[message.role] ~ ': ' ~ message.content | trim ~ '\\n\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- 'Assistant:' -}}
{%- endif -%}
"""

# A model that was not trained on chats would go on with the user's next words.
PLAIN_STOP = ("\nUser:",)
