#!/usr/bin/env python3
"""Writes the templates, the conversations (as JSON in strings) and what transformers renders of them: *.jinja and
expected.json.

The templates are written for this test. Each does to plain messages what the template of its family does, with the
constructs and the characteristic parts of it, by which it is recognised. Needs transformers; made with 5.23.0.
"""

import datetime
import json
import pathlib

import transformers
from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent

IM = """{% for message in messages %}{DEFAULT}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def with_default(text):
    default = "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" + text
    return IM.replace("{DEFAULT}", default + "<|im_end|>\\n' }}{% endif %}")


ALTERNATE = """{%- for message in rest %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('the roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
{%- endfor %}
"""

SPLIT_SYSTEM = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
"""

TOOL_LIST = """{%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS][" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {{- '"' + key + '": ' + val|tojson }}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}"""

MISTRAL_V3 = SPLIT_SYSTEM + """{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = rest | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in rest %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("the roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in rest %}
    {%- if message["role"] == "user" %}
        """ + TOOL_LIST + """
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- ASSISTANT + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}
"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""

GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
""" + ALTERNATE + """{%- for message in rest -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
"""

LLAMA3_1 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {{- "You have access to the following functions.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

IM_TOOLS = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\nFunction signatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nFor each call, answer <tool_call>\\n{\\"name\\": <function-name>}\\n</tool_call><|im_end|>\\n" }}
"""

TOOL_CALLS = """{%- for tool_call in message.tool_calls %}
            {%- if (loop.first and content) or (not loop.first) %}
                {{- '\\n' }}
            {%- endif %}
            {%- if tool_call.function %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {%- if tool_call.arguments is string %}
                {{- tool_call.arguments }}
            {%- else %}
                {{- tool_call.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}"""

TOOL_RESULTS = """{%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}"""

QWEN2_5 = IM_TOOLS + """{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {{- '<|im_start|>' + message.role + '\\n' + (content or '') }}
        """ + TOOL_CALLS + """
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        """ + TOOL_RESULTS + """
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

QWEN3 = IM_TOOLS + """{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(searching=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
        """ + TOOL_CALLS + """
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        """ + TOOL_RESULTS + """
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

SMOLLM3 = """{# defaults #}
{%- if enable_thinking is not defined -%}
{%- set enable_thinking = true -%}
{%- endif -%}
{%- set reasoning_mode = "/think" if enable_thinking else "/no_think" -%}
{{- "<|im_start|>system\\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}
    {%- set reasoning_mode = "/no_think" -%}
  {%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "## Metadata\\n\\nKnowledge Cutoff Date: June 2025\\n" -}}
{%- set today = strftime_now("%d %B %Y") -%}
{{- "Today Date: " ~ today ~ "\\n" -}}
{{- "Reasoning Mode: " + reasoning_mode + "\\n\\n## Custom Instructions\\n\\n" -}}
{%- if custom_instructions -%}
{{- custom_instructions + "\\n\\n" -}}
{%- else -%}
{{- "LONG\\n\\n" -}}
{%- endif -%}
{{- "<|im_end|>\\n" -}}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "user" -%}
    {{ "<|im_start|>" + message.role + "\\n" + content + "<|im_end|>\\n" }}
  {%- elif message.role == "assistant" -%}
    {% generation %}
    {%- if reasoning_mode == "/think" -%}
      {{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
    {%- else -%}
      {{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
    {%- endif -%}
    {% endgeneration %}
  {%- elif message.role == "tool" -%}
    {{ "<|im_start|>" + "user\\n" + content + "<|im_end|>\\n" }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {%- if reasoning_mode == "/think" -%}
    {{ "<|im_start|>assistant\\n" }}
  {%- else -%}
    {{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n" }}
  {%- endif -%}
{%- endif -%}
"""

SMOLLM3_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face. Your role as an assistant involves thoroughly exploring questions through a systematic thinking process before providing the final precise and accurate solutions. This requires engaging in a comprehensive cycle of analysis, summarizing, exploration, reassessment, reflection, backtracking, and iteration to develop well-considered thinking process. Please structure your response into two main sections: Thought and Solution using the specified format: <think> Thought section </think> Solution section. In the Thought section, detail your reasoning process in steps. Each step should include detailed considerations such as analysing questions, summarizing relevant findings, brainstorming new ideas, verifying the accuracy of the current steps, refining any errors, and revisiting previous steps. In the Solution section, based on various attempts, explorations, and reflections from the Thought section, systematically present the final solution that you deem correct. The Solution section should be logical, accurate, and concise and detail necessary steps needed to reach the conclusion."

APERTUS = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {{- '<|system_start|>' + messages[0]['content'] }}
    {%- set rest = messages[1:] %}
{%- else %}
    {{- '<|system_start|>You are Apertus, a helpful assistant created by the SwissAI initiative.\\nKnowledge cutoff: 2024-04\\nCurrent date: ' + strftime_now('%Y-%m-%d') }}
    {%- set rest = messages %}
{%- endif %}
{{- '<|system_end|><|developer_start|>Deliberation: ' + ('enabled' if enable_thinking is defined and enable_thinking else 'disabled') }}
{{- '\\nTool Capabilities: disabled<|developer_end|>' }}
{%- set ns = namespace(open=false) %}
{%- for message in rest %}
    {%- if ns.open %}
        {{- '<|assistant_end|>' }}
        {%- set ns.open = false %}
    {%- endif %}
    {%- if message['role'] == 'assistant' %}
        {{- '<|assistant_start|>' + message['content'] }}
        {%- set ns.open = true %}
    {%- elif message['role'] == 'user' %}
        {{- '<|user_start|>' + message['content'] + '<|user_end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- ('<|assistant_end|>' if ns.open else '') + '<|assistant_start|>' }}
{%- endif %}
"""

BIELIK = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
    {%- set rest = messages %}
{%- endif %}
{%- if system_message or tools %}
    {{- '<|im_start|>system\\n' + system_message }}
    {%- if tools %}
        {{- '<|function_list|>\\n' + tools | tojson }}
    {%- endif %}
    {%- if enable_thinking %}
        {{- 'Think between <think>...</think>.' }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in rest %}
    {%- if message['role'] == 'assistant' %}
        {{- '<|im_start|>assistant\\n' + message['content'].lstrip() + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""

TULU = """{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\\n' + message['content'] + '\\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] + '\\n' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\\n'  + message['content'] + eos_token + '\\n' }}{% else %}{{ '<|assistant|>\\n'  + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}{% endfor %}"""

GRANITE = """{%- if tools %}
    {{- '<|start_of_role|>available_tools<|end_of_role|>\\n' }}
    {%- for tool in tools %}
    {{- tool | tojson(indent=4) }}
    {%- if not loop.last %}
        {{- '\\n\\n' }}
    {%- endif %}
    {%- endfor %}
    {{- '<|end_of_text|>\\n' }}
{%- endif %}
{%- for message in LIST %}
    {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}
    {%- if loop.last and add_generation_prompt %}
    {{- '<|start_of_role|>assistant<|end_of_role|>' }}
    {%- endif %}
{%- endfor %}
"""

GRANITE3_1 = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = "Knowledge Cutoff Date: April 2024.\\nToday's Date: " + strftime_now('%B %d, %Y') + ".\\nYou are Granite, developed by IBM." %}
    {%- if tools and documents %}
        {%- set system_message = system_message + " You answer with tools and documents." %}
    {%- else %}
        {%- set system_message = system_message + " You are a helpful AI assistant." %}
    {%- endif %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\\n' }}
""" + GRANITE.replace("LIST", "loop_messages")

DEEPSEEK = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{% set content = message['content'] %}{STRIP}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor -%}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜>{THINK}'}}{% endif %}"""

DEEPSEEK_V3_1 = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, is_last_user=false, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{%- set ns.is_last_user = true -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['tool_calls'] is defined %}{%- if ns.is_last_user %}{{'<｜Assistant｜></think>'}}{%- endif %}{%- set ns.is_last_user = false -%}{%- set ns.is_first = false -%}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls'] %}{%- if not ns.is_first %}{{(message['content'] or '') + '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['function']['name'] + '<｜tool▁sep｜>' + (tool['function']['arguments'] | tojson) + '<｜tool▁call▁end｜>'}}{%- set ns.is_first = true -%}{%- else %}{{'<｜tool▁call▁begin｜>' + tool['function']['name'] + '<｜tool▁sep｜>' + (tool['function']['arguments'] | tojson) + '<｜tool▁call▁end｜>'}}{%- endif %}{%- endfor %}{{'<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}}{%- elif message['role'] == 'assistant' %}{%- if ns.is_last_user %}{{'<｜Assistant｜>'}}{{'</think>'}}{%- endif %}{%- set ns.is_last_user = false -%}{%- set content = message['content'] -%}{%- if not ns.is_tool and '</think>' in content %}{%- set content = content.split('</think>', 1)[1] -%}{%- endif %}{%- set ns.is_tool = false -%}{{content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_last_user = false -%}{%- set ns.is_tool = true -%}{{'<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>'}}{%- endif %}{%- endfor -%}{% if add_generation_prompt and ns.is_last_user and not ns.is_tool %}{{'<｜Assistant｜>'}}{{'</think>'}}{% endif %}"""

DEEPSEEK_CODER = """{% if not add_generation_prompt is defined %}
{% set add_generation_prompt = false %}
{% endif %}
{%- set ns = namespace(found=false) -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- set ns.found = true -%}
        {%- break -%}
    {%- endif -%}
{%- endfor -%}
{{bos_token}}{%- if not ns.found -%}
{{'You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek Company, and you only answer questions related to computer science. For politically sensitive questions, security and privacy issues, and other non-computer science questions, you will refuse to answer\\n'}}
{%- endif %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
{{ message['content'] }}
    {%- elif message['role'] == 'user' %}
{{'### Instruction:\\n' + message['content'] + '\\n'}}
    {%- else %}
{{'### Response:\\n' + message['content'] + '\\n<|EOT|>\\n'}}
    {%- endif %}
{%- endfor %}
{% if add_generation_prompt %}
{{'### Response:'}}
{% endif %}"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

MISTRAL_V7_TEKKEN = """{%- set today = strftime_now("%Y-%m-%d") %}
{%- set default_system_message = "You are Mistral Small.\\nThe current date is " + today + ".\\n\\n" %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set system_message = messages[0]['content'] %}
    {%- else %}
        {%- set system_message = messages[0]['content'][0]['text'] %}
    {%- endif %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system_message = default_system_message %}
    {%- set rest = messages %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' }}
{%- for message in rest %}
    {%- if message['role'] == 'user' %}
        {{- '[INST]' + message['content'] + '[/INST]' }}
    {%- elif message['role'] == 'system' %}
        {{- '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}
    {%- elif message['role'] == 'assistant' %}
        {{- message['content'] + eos_token }}
    {%- else %}
        {{- raise_exception('Only user, system and assistant roles are supported!') }}
    {%- endif %}
{%- endfor %}
"""

# No family's: constructs that chat templates use, and how Python prints things.
CONSTRUCTS = """{%- macro show(value, depth=0) -%}
    {%- if value is mapping -%}
        {%- for key, item in value|dictsort -%}{{ '  ' * depth ~ key }}: {{ show(item, depth + 1) }};{%- endfor -%}
    {%- elif value is string -%}'{{ value }}'
    {%- elif value is sequence -%}[{%- for item in value -%}{{ show(item, depth + 1) }}{{ ", " if not loop.last }}{%- endfor -%}]
    {%- else -%}{{ value }}{%- endif -%}
{%- endmacro -%}
{#- a comment -#}
{% set ns = namespace(count=0, names=[]) %}
  {% for message in messages if message.role != 'system' %}
    {% if loop.index > 3 %}{% break %}{% endif %}
    {% if not message.content %}{% continue %}{% endif %}
    {% set ns.count = ns.count + 1 %}
    {% set ns.names = ns.names + [message.role|upper] %}
{{ loop.index }}/{{ loop.length }} {{ message.role|capitalize }}{{ "!" if loop.first }}: {{ message.content.strip().split(' ')[0] }}|{{ message['content'][:3] }}|{{ message.content[-2:] }}|{{ message.content.replace('a', 'A', 1).title() }}
  {% endfor %}
{% for nobody in messages if nobody.role == 'x' %}{{ nobody }}{% else %}nobody{% endfor %}
{{ ns.count }} {{ ns.names|join('+') }} {{ ns.names|length // 2 }} {{ 7 % 3 }} {{ 2 ** 3 }} {{ 7 / 2 }} {{ none }} {{ true }} {{ 'x' in 'xyz' and not 'q' in ns.names }}
{{ messages|map(attribute='role')|join(',') }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|rejectattr('role', 'in', ['user'])|map(attribute='role')|unique|list|first|default('-', true) }}
{{ {'a': 1, 'b': [true, none, 1.5, 'é\\"<>&\\n']}|tojson }} {{ {'b': {}, 'a': [], 'c': [1]}|tojson(indent=2) }} {{ undefined_name|default('d') }}{{ undefined_name }}
{{ show({'role': {'x': ['1', 2, none]}, 'y': 'z'}) }}
{%- if tools %}
{{ tools|tojson(indent=4) }} {{ tools[0]|items|list|length }} {{ tools[0].function.name if tools[0].function is defined else 'none' }}
{%- endif %}
{%- filter upper %} end{% endfilter %}
{{ strftime_now('%d %b %Y %H:%M') }} {{ '%s-%s'|format('a', 3) }} {{ "{}".format(1) }} {{ 'abc'|reverse }} {{ [3, 1, 2]|sort|list|last }} {{ 'a,b'.split(',')|last }} {{ "x".join(['1', '2']) }}
{{- bos_token ~ eos_token -}}
"""

# Families of 2025 and 2026.

LFM2 = """{{- bos_token -}}
{%- set ns = namespace(system_prompt="") -%}
{%- set rest = messages -%}
{%- if messages[0]["role"] == "system" -%}
    {%- set ns.system_prompt = messages[0]["content"] -%}
    {%- set rest = messages[1:] -%}
{%- endif -%}
{%- if tools -%}
    {%- set ns.system_prompt = ns.system_prompt + ("\\n" if ns.system_prompt else "") + "List of tools: <|tool_list_start|>[" -%}
    {%- for tool in tools -%}
        {%- set ns.system_prompt = ns.system_prompt + tool|tojson + (", " if not loop.last else "") -%}
    {%- endfor -%}
    {%- set ns.system_prompt = ns.system_prompt + "]<|tool_list_end|>" -%}
{%- endif -%}
{%- if ns.system_prompt -%}
    {{- "<|im_start|>system\\n" + ns.system_prompt + "<|im_end|>\\n" -}}
{%- endif -%}
{%- for message in rest -%}
    {%- set content = message["content"] if message["role"] != "tool" else "<|tool_response_start|>" + message["content"] + "<|tool_response_end|>" -%}
    {{- "<|im_start|>" + message["role"] + "\\n" + content + "<|im_end|>\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<|im_start|>assistant\\n" -}}
{%- endif -%}
"""

QWEN3_5 = """{%- macro render_content(content) -%}
    {%- if content is string -%}{{- content -}}{%- else -%}{{- raise_exception('Unexpected content type.') -}}{%- endif -%}
{%- endmacro -%}
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + render_content(messages[0].content)|trim + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last_query_index=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{%- set ns.last_query_index = loop.index0 %}{%- endif %}
{%- endfor %}
{%- if ns.last_query_index < 0 %}{{- raise_exception('No user query found in messages.') }}{%- endif %}
{%- for message in messages %}
    {%- set content = render_content(message.content)|trim %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].split('<think>')[-1]|trim %}
            {%- set content = content.split('</think>')[-1]|trim %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning_content + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- for name, value in call.function.arguments|items %}
                {{- '<parameter=' + name + '>\\n' ~ value ~ '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + content + '\\n</tool_response><|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""

KIMI_K2 = """{%- for message in messages -%}
    {%- if loop.first and messages[0]['role'] != 'system' -%}
        {{'<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>\\n'}}
    {%- endif -%}
    {%- if message['role'] == 'system' -%}
        {{'<|im_system|>system<|im_middle|>'}}
    {%- elif message['role'] == 'user' -%}
        {{'<|im_user|>user<|im_middle|>'}}
    {%- elif message['role'] == 'assistant' -%}
        {{'<|im_assistant|>assistant<|im_middle|>'}}
    {%- elif message['role'] == 'tool' -%}
        {{'<|im_system|>tool<|im_middle|>## Return of ' + message.tool_call_id + '\\n'}}
    {%- endif -%}
    {{- message['content'] + '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<|im_assistant|>assistant<|im_middle|>'}}
{%- endif -%}
"""

GEMMA4 = """{%- macro strip_thinking(text) -%}
    {%- set ns = namespace(result='') -%}
    {%- for part in text.split('<channel|>') -%}
        {%- set ns.result = ns.result + (part.split('<|channel>')[0] if '<|channel>' in part else part) -%}
    {%- endfor -%}
    {{- ns.result | trim -}}
{%- endmacro -%}
{%- set rest = messages -%}
{{ bos_token }}
{%- if (enable_thinking is defined and enable_thinking) or messages[0]['role'] in ['system', 'developer'] -%}
    {{- '<|turn>system\\n' -}}
    {%- if enable_thinking is defined and enable_thinking -%}
        {{- '<|think|>\\n' -}}
    {%- endif -%}
    {%- if messages[0]['role'] in ['system', 'developer'] -%}
        {{- messages[0]['content'] | trim -}}
        {%- set rest = messages[1:] -%}
    {%- endif -%}
    {{- '<turn|>\\n' -}}
{%- endif %}
{%- for message in rest -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{- '<|turn>' + role + '\\n' }}
    {%- if role == 'model' -%}{{- strip_thinking(message['content']) -}}{%- else -%}{{- message['content'] | trim -}}{%- endif -%}
    {{- '<turn|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|turn>model\\n' -}}CLOSED
{%- endif -%}
"""

HARMONY = """{{- "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\\n" }}
{{- "Knowledge cutoff: 2024-06\\n" }}
{{- "Current date: " + strftime_now("%Y-%m-%d") + "\\n\\n" }}
{{- "Reasoning: medium\\n\\n# Valid channels: analysis, commentary, final. Channel must be included for every message." }}
{{- "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer_message = messages[0].content %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set developer_message = "" %}
    {%- set rest = messages %}
{%- endif %}
{%- if developer_message %}
    {{- "<|start|>developer<|message|># Instructions\\n\\n" + developer_message + "\\n\\n<|end|>" }}
{%- endif %}
{%- for message in rest %}
    {%- if message.role == 'assistant' %}
        {%- if "<|channel|>" in message.content %}
            {{- raise_exception("The channels belong into other fields.") }}
        {%- endif %}
        {%- if message.tool_calls %}
            {{- "<|start|>assistant to=functions." + message.tool_calls[0].function.name + "<|channel|>commentary json<|message|>" }}
            {{- message.tool_calls[0].function.arguments|tojson + "<|call|>" }}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
        {%- endif %}
    {%- elif message.role == 'tool' %}
        {{- "<|start|>functions.weather to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' %}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- "<|start|>assistant" }}
{%- endif %}
"""

SEED_OSS = """{%- set bos_token = '<seed:bos>' -%}
{%- set eos_token = '<seed:eos>' -%}
{%- if messages[0]["role"] == "system" %}
{%- set system_message = messages[0]["content"] %}
{%- set rest = messages[1:] %}
{%- else %}
{%- set rest = messages %}
{%- endif %}
{%- if system_message is defined %}
{{ bos_token + "system\\n" + system_message }}
{%- endif %}
{%- if system_message is defined %}
{{ eos_token }}
{%- endif %}
{%- for message in rest %}
{%- if message.role == "assistant" %}
{{ bos_token + message.role }}
{%- if message.content is string and message.content | trim | length > 0 %}
{{ "\\n" + message.content | trim + eos_token }}
{%- endif %}
{%- else %}
{{ bos_token + message.role + "\\n" + message.content + eos_token }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{ bos_token+"assistant\\n" }}
{%- endif %}"""

ERNIE4_5 = """{%- if not cls_token is defined -%}
    {%- set cls_token = "<|begin_of_sentence|>" -%}
{%- endif -%}
{%- if not sep_token is defined -%}
    {%- set sep_token = "<|end_of_sentence|>" -%}
{%- endif -%}
{{- cls_token -}}
{%- for message in messages -%}
    {%- if message["role"] == "user" -%}
        {{- "User: " + message["content"] + "\\n" -}}
    {%- elif message["role"] == "assistant" -%}
        {{- "Assistant: " + message["content"] + sep_token -}}
    {%- elif message["role"] == "system" -%}
        {{- message["content"] + "\\n" -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "Assistant: " -}}
{%- endif -%}
"""

HUNYUAN = """{%- for message in messages -%}
    {%- if loop.first -%}{{- '<｜hy_begin▁of▁sentence｜>' -}}{%- endif -%}
    {%- if message.role == 'system' -%}
        {{- message.content + '<｜hy_place▁holder▁no▁3｜>' -}}
    {%- elif message.role == 'user' -%}
        {{- '<｜hy_User｜>' + message.content -}}
    {%- elif message.role == 'assistant' -%}
        {{- '<｜hy_Assistant｜>' + message.content + '<｜hy_place▁holder▁no▁2｜>' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜hy_Assistant｜>' -}}{%- else -%}{{- '<｜hy_place▁holder▁no▁8｜>' -}}{%- endif -%}
"""

LLAMA4 = """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {{- '<|header_start|>system<|header_end|>\\n\\n' + messages[0]['content'] | trim + '<|eot|>' }}
    {%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
    {{- '<|header_start|>' + message['role'] + '<|header_end|>\\n\\n' + message['content'] + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header_start|>assistant<|header_end|>\\n\\n' }}
{%- endif %}
"""

KIMI_K2_THINKING = """{%- if messages[0]['role'] != 'system' -%}
    <|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>
{%- endif -%}
{%- for message in messages -%}
    {%- if message['role'] == 'assistant' -%}
        <|im_assistant|>assistant<|im_middle|><think></think>
    {%- elif message['role'] == 'user' -%}
        <|im_user|>user<|im_middle|>
    {%- else -%}
        <|im_system|>{{ message['role'] }}<|im_middle|>
    {%- endif -%}
    {{ message['content'] }}<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}
    <|im_assistant|>assistant<|im_middle|>
{%- endif -%}
"""

LFM2_5 = """{{- bos_token -}}
{%- set keep_past_thinking = keep_past_thinking | default(false) -%}
{%- set ns = namespace(last=-1) -%}
{%- for message in messages -%}
    {%- if message.role == "assistant" -%}
        {%- set ns.last = loop.index0 -%}
    {%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
    {%- set content = message.content -%}
    {%- if message.role == "assistant" and loop.index0 != ns.last and not keep_past_thinking and "</think>" in content -%}
        {%- set content = content.split("</think>")[-1] | trim -%}
    {%- endif -%}
    {%- if content or not loop.first or message.role != "system" -%}
        {{- "<|im_start|>" + message.role + "\\n" + content + "<|im_end|>\\n" -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<|im_start|>assistant\\n" -}}
{%- endif -%}
"""

LFM2_5_A1B = """{{- bos_token -}}
{%- set preserve_thinking = preserve_thinking | default(false) -%}
{%- set ns = namespace(last=-1) -%}
{%- for message in messages -%}
    {%- if message.role == "user" -%}
        {%- set ns.last = loop.index0 -%}
    {%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
    {%- set content = message.content -%}
    {%- if message.role == "assistant" -%}
        {%- if message.thinking is defined and (preserve_thinking or loop.index0 > ns.last) -%}
            {%- set content = "<think>" + message.thinking + "</think>" + content -%}
        {%- elif "</think>" in content and not (preserve_thinking or loop.index0 > ns.last) -%}
            {%- set content = content.split("</think>")[-1] | trim -%}
        {%- endif -%}
    {%- endif -%}
    {%- if content or not loop.first or message.role != "system" -%}
        {{- "<|im_start|>" + message.role + "\\n" + content + "<|im_end|>\\n" -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<|im_start|>assistant\\n" -}}
{%- endif -%}
"""

NEMOTRON3 = """{%- set truncate_history_thinking = truncate_history_thinking if truncate_history_thinking is defined else true %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}
    {{- messages[0].content }}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1] %}
        {%- endif %}
        {%- set content = ('<think></think>' ~ content) | trim %}
    {%- endif %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' ~ ('<think></think>' if enable_thinking is defined and not enable_thinking else '<think>\\n') }}
{%- endif %}
"""

NEMOTRON_NANO_V2 = """{{- '<SPECIAL_10>System\\n' -}}
{%- if messages[0]['role'] == 'system' -%}
    {{- messages[0]['content'].strip() -}}
    {%- set messages = messages[1:] -%}
{%- endif -%}
{{- '\\n\\n' -}}
{%- set last = messages[-1]['role'] -%}
{%- for message in messages -%}
    {%- if message['role'] == 'user' -%}
        {{- '<SPECIAL_11>User\\n' + message['content'].strip() + '\\n' -}}
    {%- elif message['role'] == 'assistant' -%}
        {{- '<SPECIAL_11>Assistant\\n' + ('<think>\\n' if loop.last else '') -}}
        {{- message['content'].split('</think>')[-1].strip() + '\\n<SPECIAL_12>\\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<SPECIAL_11>Assistant\\n<think>\\n' -}}
{%- endif -%}
"""

EXAONE4 = """{%- set heads = {'user': '[|user|]\\n', 'assistant': '[|assistant|]\\n', 'system': '[|system|]\\n', 'tool': '[|tool|]\\n'} %}
{%- set end = '[|endofturn|]\\n' %}
{%- for message in messages %}
    {{- heads[message.role] }}
    {%- if message.role == 'assistant' and message.content %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
        {%- if '</think>' in message.content %}
            {{- message.content.split('</think>')[-1].strip() }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- else %}
        {{- message.content }}
    {%- endif %}
    {{- end }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- heads['assistant'] + ('<think>\\n' if enable_thinking is defined and enable_thinking else '<think>\\n\\n</think>\\n\\n') }}
{%- endif %}
"""

GLM4 = """[gMASK]<sop>
{%- for message in messages %}
    {%- if message.role == 'system' %}
<|system|>
{{ message.content }}
    {%- endif %}
{%- endfor %}
{%- for message in messages if message.role != 'system' %}
    {%- set VISIBLE %}
    {%- set meta = message.get("metadata", "") %}
<|{{ message.role }}|>{{ meta }}
{{ visible }}
{%- endfor %}
{% if add_generation_prompt %}<|assistant|>OPEN{% endif %}"""

GLM4_5 = """[gMASK]<sop>
{%- macro visible_text(content) -%}
    {{- content }}
{%- endmacro -%}
{%- for message in messages -%}
<|{{ message.role }}|>
    {%- if message.role == 'assistant' -%}
        {%- set content = visible_text(message.content).split('</think>')[-1].strip() -%}
        {{- '\\n<think></think>' }}
        {%- if content -%}
            {{- '\\n' + content }}
        {%- endif -%}
    {%- else -%}
        {{- '\\n' + visible_text(message.content) }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    <|assistant|>{{- '\\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}
{%- endif -%}
"""

GLM4_7 = """[gMASK]<sop>
{%- macro visible_text(content) -%}
    {{- content }}
{%- endmacro -%}
{%- for message in messages -%}
<|{{ message.role }}|>
    {%- if message.role == 'assistant' -%}
        {{ '</think>' }}{{- visible_text(message.content).split('</think>')[-1].strip() }}
    {%- else -%}
        {{- visible_text(message.content) }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    <|assistant|>{{- '</think>' if (enable_thinking is defined and not enable_thinking) else '<think>' -}}
{%- endif -%}
"""

SPARK2_5 = """{%- set enable_thinking = enable_thinking | default(true) %}
{{- '<｜start▁of▁sentence｜><|System|>' + '\\n' + 'you are a helpful assistant.' }}
{%- if tools %}
    {{- '## Tools' + '\\n' + 'You have access to the following functions:' + '\\n' + '<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + tool.function | tojson }}
    {%- endfor %}
    {{- '\\n' + '</tools>' }}
{%- endif %}
{%- if messages[0].role == 'system' and messages[0].content %}
    {{- '\\n\\n' + messages[0].content }}
{%- endif %}
{{- '<｜end▁of▁sentence｜>' }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<｜start▁of▁sentence｜><|User|>' + message.content + '<｜end▁of▁sentence｜>' }}
    {%- elif message.role == 'assistant' %}
        {{- '<｜start▁of▁sentence｜><|Bot|>' }}
        {%- if message.reasoning_content %}
            {{- '<think>' + message.reasoning_content + '</think>' }}
        {%- else %}
            {{- '</think>' }}
        {%- endif %}
        {%- if message.content %}
            {{- message.content }}
        {%- endif %}
        {%- if message.tool_calls is defined and message.tool_calls is not none %}
            {%- for tool_call in message.tool_calls %}
                {{- '<tool_call>' + tool_call.function.name }}
                {%- for k, v in tool_call.function.arguments.items() %}
                    {{- '<arg_key>' ~ k ~ '</arg_key><arg_value>' ~ (v if v is string else v | tojson) ~ '</arg_value>' }}
                {%- endfor %}
                {{- '</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<｜end▁of▁sentence｜>' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem is undefined or loop.previtem.role != 'tool' %}
            {{- '<｜start▁of▁sentence｜><|Tool|>' }}
        {%- endif %}
        {{- '<tool_response>' ~ message.content ~ '</tool_response>' }}
        {%- if loop.nextitem is undefined or loop.nextitem.role != 'tool' %}
            {{- '<｜end▁of▁sentence｜>' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<｜start▁of▁sentence｜><|Bot|>' }}
    {{- '<think>' if enable_thinking else '</think>' }}
{%- endif %}
"""

GRANITE4 = """{%- set default = 'You are a helpful assistant. Please ensure responses are professional, accurate, and safe.' %}
{%- if messages[0].role == 'system' %}
    {%- set default = messages[0].content or default %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + default + '<|end_of_text|>\\n' }}
{%- for message in messages %}
    {{- '<|start_of_role|>' + message.role + '<|end_of_role|>' + message.content + '<|end_of_text|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_of_role|>assistant<|end_of_role|>' }}
{%- endif %}
"""

MINISTRAL3_REASONING = """{%- set default = '# HOW YOU SHOULD THINK AND ANSWER\\n\\nFirst draft your thinking process (inner monologue) until you arrive at a response. Format your response using Markdown, and use LaTeX for any mathematical equations. Write both your thoughts and the response in the same language as the input.\\n\\nYour thinking process must follow the template below:[THINK]Your thoughts or/and draft, like working through an exercise on scratch paper. Be as casual and as long as you want until you are confident to generate the response to the user.[/THINK]Here, provide a self-contained response.' %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set default = messages[0]['content'] %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + default + '[/SYSTEM_PROMPT]' }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {{- '[INST]' + message['content'] + '[/INST]' }}
    {%- elif message['role'] == 'assistant' %}
        {%- if not message['content'] %}
            {{- raise_exception('Assistant messages must have a content.') }}
        {%- endif %}
        {{- message['content'] + eos_token }}
    {%- endif %}
{%- endfor %}
"""

FUNCTION_GEMMA = """{{ bos_token }}
{%- set ns = namespace(prev_message_type=None) -%}
{%- set rest = messages -%}
{%- if tools or messages[0]['role'] in ['system', 'developer'] -%}
    {{- '<start_of_turn>developer\\n' -}}
    {%- if messages[0]['role'] in ['system', 'developer'] -%}
        {{- messages[0]['content'] | trim -}}
        {%- set rest = messages[1:] -%}
    {%- endif -%}
    {%- for tool in tools or [] -%}
        {{- '<start_function_declaration>declaration:' + tool.function.name + '{description:<escape>' + tool.function.description + '<escape>,parameters:{properties:{' -}}
        {%- for key, value in tool.function.parameters.properties | dictsort -%}
            {{- key + ':{description:<escape>' + (value.description or '') + '<escape>,type:<escape>' + (value.type | upper) + '<escape>}' -}}
            {{- ',' if not loop.last else '' -}}
        {%- endfor -%}
        {{- '}}}<end_function_declaration>' -}}
    {%- endfor -%}
    {{- '<end_of_turn>\\n' -}}
{%- endif -%}
{%- for message in rest -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {%- if role != 'tool' -%}
        {%- if ns.prev_message_type != 'tool_response' -%}
            {{- '<start_of_turn>' + role + '\\n' -}}
        {%- endif -%}
        {%- set ns.prev_message_type = 'content' -%}
        {{- message['content'] | trim -}}
        {%- for call in message['tool_calls'] or [] -%}
            {{- '<start_function_call>call:' + call.function.name + '{' -}}
            {%- for key, value in call.function.arguments | dictsort -%}
                {{- key + ':' -}}{{- '<escape>' + value + '<escape>' if value is string else value -}}
                {{- ',' if not loop.last else '' -}}
            {%- endfor -%}
            {{- '}<end_function_call>' -}}
            {%- set ns.prev_message_type = 'tool_call' -%}
        {%- endfor -%}
    {%- else -%}
        {{- '<start_function_response>response:' + (message['name'] or '') + '{value:<escape>' + message['content'] + '<escape>}<end_function_response>' -}}
        {%- set ns.prev_message_type = 'tool_response' -%}
    {%- endif -%}
    {%- if ns.prev_message_type not in ['tool_call', 'tool_response'] -%}
        {{- '<end_of_turn>\\n' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and ns.prev_message_type != 'tool_response' -%}
    {{- '<start_of_turn>model\\n' -}}
{%- endif -%}"""

TEMPLATES = {
    "chatml": IM.replace("{DEFAULT}", ""),
    "qwen2": with_default("You are a helpful assistant."),
    "qwen2.5": QWEN2_5,
    "qwen3": QWEN3,
    "smollm2": with_default("You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    "smollm3": SMOLLM3.replace("LONG", SMOLLM3_SYSTEM),
    "qwen3-coder": IM.replace("{DEFAULT}", "{% if loop.first and tools %}{{ '# Tools for You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks.' }}{% endif %}"),
    "mimo": with_default("You are MiMo, an AI assistant developed by Xiaomi."),
    "hermes": "{{ bos_token }}" + IM.replace("{DEFAULT}", "{% if loop.first and tools %}{{ 'You are a function calling AI model.' }}{% endif %}"),
    "bielik": BIELIK,
    "chatml-bos": "{{ bos_token }}" + IM.replace("{DEFAULT}", ""),
    "apertus": APERTUS,
    "minicpm5": "{{- bos_token }}" + QWEN3.replace("XML tags:", "XML tags, and <param name= in calls:"),
    "phi4": "{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}",
    "llama2": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "mistral-v0": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}",
    "mistral-v1": SPLIT_SYSTEM + "\n{{- bos_token }}\n" + ALTERNATE + "{%- for message in rest %}\n    {%- if message['role'] == 'user' %}\n        {%- if loop.first and system_message is defined %}\n            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}\n        {%- else %}\n            {{- ' [INST] ' + message['content'] + ' [/INST]' }}\n        {%- endif %}\n    {%- elif message['role'] == 'assistant' %}\n        {{- ' ' + message['content'] + eos_token}}\n    {%- endif %}\n{%- endfor %}\n",
    "mistral-v3": MISTRAL_V3.replace("ASSISTANT", '" " + message["content"]|trim'),
    "mistral-v3-tekken": MISTRAL_V3.replace("ASSISTANT", 'message["content"]').replace('"[INST] "', '"[INST]"'),
    "mistral-v7": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + '[/INST]' }}{% elif message['role'] == 'system' %}{{ '[SYSTEM_PROMPT] ' + message['content'] + '[/SYSTEM_PROMPT]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}{% else %}{{ raise_exception('Only user, system and assistant roles are supported!') }}{% endif %}{% endfor %}",
    "mistral-v7-tekken": MISTRAL_V7_TEKKEN,
    "llama3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "llama3.1": LLAMA3_1,
    "llama3.2": LLAMA3_1.replace('''    {%- set date_string = "26 Jul 2024" %}
''', '''    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
'''),
    "gemma": GEMMA,
    "gemma3": GEMMA3,
    "functiongemma": FUNCTION_GEMMA,
    "phi3": "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
    "phi4-mini": "{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}",
    "granite": GRANITE.replace("LIST", "messages"),
    "granite3.1": GRANITE3_1,
    "granite3.3": GRANITE3_1.replace("2024.\\n", "2024. ").replace(".\\nYou", ". You"),
    "deepseek-v2": "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\n\n' }}{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}{% elif message['role'] == 'system' %}{{ message['content'] + '\n\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
    "deepseek-v3": DEEPSEEK.replace("{STRIP}", "").replace("{THINK}", ""),
    "deepseek-r1": DEEPSEEK.replace("{STRIP}", "{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}").replace("{THINK}", "<think>\\n"),
    "deepseek-coder": DEEPSEEK_CODER,
    "deepseek-v3.1": DEEPSEEK_V3_1,
    "olmo2": "{{ bos_token }}" + TULU,
    "tulu": TULU,
    "zephyr": ZEPHYR,
    "openchat": "{{ bos_token }}{% for message in messages %}{{ 'GPT4 Correct ' + message['role'].title() + ': ' + message['content'] + '<|end_of_turn|>'}}{% endfor %}{% if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %}",
    "vicuna": "{%- for message in messages %}{%- if message['role'] == 'system' -%}{{- '' + message['content'] + '\n\n' -}}{%- elif message['role'] == 'user' -%}{{-'USER: ' + message['content'] + '\n'-}}{%- else -%}{{-'ASSISTANT: ' + message['content'] + '</s>\n' -}}{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}{{-'ASSISTANT:'-}}{%- endif -%}",
    "lfm2": LFM2,
    "qwen3.5": QWEN3_5,
    "kimi-k2": KIMI_K2,
    "gemma4": GEMMA4.replace("CLOSED", "\n    {%- if not enable_thinking | default(false) -%}\n        {{- '<|channel>thought\\n<channel|>' -}}\n    {%- endif -%}"),
    "gemma4-e": GEMMA4.replace("CLOSED", ""),
    "harmony": HARMONY,
    "llama4": LLAMA4,
    "seed-oss": SEED_OSS,
    "ernie4.5": ERNIE4_5,
    "hunyuan": HUNYUAN,
    "kimi-k2-thinking": KIMI_K2_THINKING,
    "lfm2.5": LFM2_5,
    "lfm2.5-a1b": LFM2_5_A1B,
    "qwen3.5-small": QWEN3_5.replace("enable_thinking is false", "enable_thinking is true").replace("'<think>\\n\\n</think>\\n\\n'", "A").replace("'<think>\\n' }}", "'<think>\\n\\n</think>\\n\\n' }}").replace("A }}", "'<think>\\n' }}"),
    "nemotron3": NEMOTRON3,
    "nemotron-nano-v2": NEMOTRON_NANO_V2,
    "exaone4": EXAONE4,
    "glm4": GLM4.replace("VISIBLE", "visible = message.content").replace("OPEN", ""),
    "glm-z1": GLM4.replace("VISIBLE", "visible = message.content.split('</think>')[-1].strip()").replace("OPEN", "\n<think>"),
    "glm4.5": GLM4_5,
    "glm4.7": GLM4_7,
    "spark2.5": SPARK2_5,
    "granite4": GRANITE4,
    "ministral3-reasoning": MINISTRAL3_REASONING,
    "constructs": CONSTRUCTS,
}


def conversation(*texts, system=None, reply=True, **variables):
    messages = [] if system is None else [{"role": "system", "content": system}]
    messages += [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"messages": messages, "add_generation_prompt": reply, **variables}


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": 'Says "rain" or <sun> & more, é',
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1.0}}, "required": []},
    },
}

CONVERSATIONS = {
    "one": conversation("Hi"),
    "system": conversation("Hi", system="Be brief."),
    "turns": conversation("Hi", "Hello!", "How are you?", "Fine.", "Good."),
    "system, turns": conversation("Hi", "Hello!", "How are you?", "Fine.", "Good.", system="Be brief."),
    "blanks": conversation("  Hi \n", "\n  Hello! \n\n", "\tgo on  ", system=" \nBe brief.\n "),
    "unicode": conversation("Grüße, 世界 👋🏽", "​«Здравствуй» é", "\u00a0नमस्ते\u3000", system="Réponds en français."),
    "empty": conversation("", "", ""),
    "empty system": conversation("Hi", system=""),
    "finished": conversation("Hi", "Hello!", reply=False),
    "system, finished": conversation("Hi", "Hello!", "Bye", "Bye!", system="Be brief.", reply=False),
    "unanswered": conversation("Hi", "Hello!", "Bye", reply=False),
    "names": conversation("<|im_end|>\n<|im_start|>system\n</s>[/INST]", "<b>&amp; {{ 1 }} {% x %} '\"\\n", "<|eot_id|><end_of_turn>", system="<s><<SYS>>"),
    "thoughts": conversation("2+2?", "<think>\nHm, 4.\n</think>\n\n4", "Sure?"),
    "no user": conversation(system="Be brief."),
    "tools": {**conversation("Rain?", "Yes.", "Tomorrow?", system="Be brief."), "tools": [TOOL, TOOL]},
    "calls": {
        "messages": [
            {"role": "user", "content": "Rain?"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "123456789", "type": "function", "function": {"name": "weather", "arguments": {"city": "Ulm", "days": 2}}}]},
            {"role": "tool", "content": "{\"rain\": true}", "tool_call_id": "123456789"},
        ],
        "add_generation_prompt": True,
        "tools": [TOOL],
    },
    "no thinking": conversation("Hi", enable_thinking=False),
}

NOW = datetime.datetime(2025, 3, 9, 7, 5, 0)


class Clock(datetime.datetime):
    @classmethod
    def now(cls):
        return NOW


def render(template, variables):
    variables = {"bos_token": "<s>", "eos_token": "</s>", **variables}
    messages = variables.pop("messages")
    try:
        (text,), _ = chat_template_utils.render_jinja_template([messages], chat_template=template, **variables)
        return text
    except Exception as error:
        print(f"  {type(error).__name__}: {error}")
        return None


def main():
    chat_template_utils.datetime = Clock
    expected = {}
    for name, template in TEMPLATES.items():
        (HERE / f"{name}.jinja").write_text(template)
        expected[name] = {}
        for title, variables in CONVERSATIONS.items():
            print(name, title)
            expected[name][title] = render(template, dict(variables))
    data = {
        "made with": f"transformers {transformers.__version__}, at {NOW} by the template's clock; null: the template refuses",
        "conversations": {title: json.dumps(variables, ensure_ascii=False) for title, variables in CONVERSATIONS.items()},
        "expected": expected,
    }
    (HERE / "expected.json").write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n")


main()
