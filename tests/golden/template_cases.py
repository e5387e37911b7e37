"""Small chat templates, each for one or a few constructs, written for this purpose; and templates in the manner of
well-known models. make_template_golden.py renders them with Python's Jinja."""

# Expressions that are printed: one case each, as {{ EXPRESSION }}. The values they name are in VALUES.
EXPRESSIONS = r"""
1 + 2 * 3 - 4
7 // 2, -7 // 2, 7 // -2, 7 % 3, -7 % 3, 7 % -3, -7.5 // 2, 7.5 % -2
2 ** 10, 2 ** -1, 2 ** 3 ** 2, -2 ** 2, (-1) ** 3
7 / 2, 6 / 2, 1 / 3, 1e16, 1.5e300 * 10, 0.1 + 0.2, 1e-5, 123456789012345680.0, 1e22, 5e-324
1_000 + 0x1F + 0b101 + 0o17
True + 1, true, false, none, None
'a' + "b" ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x'] ~ missing
'ab' * 3, 3 * 'ab', [1] * 2, 'x' * -1
1 < 2 < 3, 1 < 3 < 2, 'a' < 'b', [1, 2] < [1, 3], (1,) < (1, 2), 1 == 1.0, '1' == 1, none == false
1 in [1, 2], 'a' in 'cat', 'x' not in {'x': 1}, 3 not in [1, 2], 'role' in message, missing in [missing]
not 1, not '', not [], not {}, not none, not missing, not 0.0, not not 1
1 and 0 or 'x', '' or 'y', 0 and missing, [] or {} or none
'yes' if 1 else 'no', 'yes' if '' else 'no', ('x' if false) is undefined, 'a' if 0 else 'b' if 0 else 'c'
[1, 'two', 3.0, none, true, [4], (5,), (), {'k': 'v'}]
{'a': 1, 'b': [1, {'c': "it's"}], 3: 'x', 'q"q': '\n\t\\'}
"it's", 'say "hi"', ["it's", 'say "hi"', 'both \' and "', 'é\x07\u200b\u2028🚉\ue000']
'\x41\u00e9\U0001F689\101\q\n|\t|\\'
'one' 'two' "three"
text[0], text[-1], text[1:3], text[::-1], text[-3:], text[:-3], text[::2], text[10:2:-3], text[100:], text[5:1]
numbers[0], numbers[-1], numbers[1:3], numbers[::-1], numbers[::2], numbers[-2:], numbers[:100], numbers[3:0:-1], numbers[2:2]
numbers[100] is defined, text[100] is defined, numbers['x'] is defined, message['nope'] is defined
(1, 2, 3)[1:], (1, 2, 3)[-1], range(5)[2], range(3) | list, range(1, 10, 3) | list, range(5, 0, -2) | list
message.role, message['content'], message.get('role'), message.get('nope'), message.get('nope', 'd'), message.nope
message.items() | list, message.keys() | list, message.values() | list, message | length
message.items is defined, message.items is callable, schema.items is string, schema['items'], schema.get('items')
nested.a.b[1].c, nested['a']['b'][0], nested.a.b.1.c, nested.a['b'][-1]['c']
missing is defined, missing is undefined, missing | default('d'), '' | default('d'), '' | default('d', true), none | default('d')
missing | length, missing | list, missing | join, missing ~ '.', missing == missing, missing | string
'  a b '.strip() ~ '|', '  a '.lstrip() ~ '|', '  a '.rstrip() ~ '|', 'xxaxx'.strip('x'), '<<a>>'.strip('<>'), '\u3000a\u2003'.strip()
'a,b,,c'.split(','), ' a  b '.split(), 'a b c'.split(' ', 1), 'abc'.split('x'), ''.split(), ''.split(','), 'a--b'.split('--')[-1]
'a b  c d'.split(none, 2), 'a,b,c'.rsplit(',', 1), ' a b c '.rsplit(none, 1), 'a\nb\r\nc\u2028d\n'.splitlines()
'hello'.startswith('he'), 'hello'.endswith('lo'), 'hello'.startswith(('x', 'h')), 'hello'.endswith(''), 'hello'.startswith('hello!')
'hello'.replace('l', 'L'), 'hello'.replace('l', 'L', 1), 'aé🚉'.replace('', '-'), 'aaa'.replace('aa', 'b')
'hello World'.upper(), 'HeLLo'.lower(), 'hello wORLD it\'s'.title(), 'hello WORLD'.capitalize()
'banana'.find('an'), 'banana'.rfind('an'), 'banana'.find('x'), 'é🚉a'.find('a'), 'banana'.count('an'), 'banana'.index('n'), 'ab'.count('')
'-'.join(['a', 'b']), ''.join([]), ', '.join(message.keys()), 'ab'.join('xyz')
'prefix-x'.removeprefix('prefix-'), 'x.txt'.removesuffix('.txt'), 'x'.removeprefix('y')
'12'.isdigit(), ''.isdigit(), 'ab'.isalpha(), 'a1'.isalnum(), ' \n'.isspace(), 'a '.isspace()
'{} and {}'.format(1, 'x'), '{1}{0}'.format('a', 'b'), '{name}!'.format(name='n'), '{{}} {0!r}'.format('q'), '{}'.format(none)
'{:>6}|{:<6}|{:^6}|{:*^7}|{:06.2f}|{:,}|{:+d}|{:x}|{:#X}|{:.3}|{:5}|{:5}|'.format('ab', 'ab', 'ab', 'ab', 3.14159, 1234567, 5, 255, 255, 'abcdef', 12, 'x')
'%s %d %5.2f %r %x %05d %-5s| %% %c' % ('a', 42, 3.14159, 'q', 255, 7, 'ab', 'z'), '%s' % 'one', '%(k)s' % {'k': 1}, '%s' % [1]
'%+d|% d|%5s|%.2s|%i|%e|%g' % (5, 5, 'ab', 'abc', 3.9, 12345.678, 0.00001234)
'%s-%s' | format('a', 1), '%(x)s' | format(x=2)
numbers | length, 'aé🚉' | length, {} | length, numbers | count
numbers | join(', '), numbers | join, [1, none, 'x'] | join('|'), messages | join(', ', attribute='role'), 'abc' | join('.')
numbers | first, numbers | last, [] | first is undefined, 'abc' | first, 'abc' | last, message | first
numbers | sort, numbers | sort(reverse=true), ['b', 'A', 'c'] | sort, ['b', 'A', 'c'] | sort(case_sensitive=true), messages | sort(attribute='content') | map(attribute='role') | list
['b', 'B', 'a', 'b'] | unique | list, [1, 1.0, 2, true] | unique | list, messages | unique(attribute='role') | map(attribute='role') | list
{'b': 1, 'a': 3, 'C': 2} | dictsort, {'b': 1, 'a': 3} | dictsort(by='value'), {'b': 1, 'a': 3} | dictsort(reverse=true), {'b': 1, 'C': 2} | dictsort(true)
numbers | sum, messages | map(attribute='n') | sum, [1, 2] | sum(start=10), numbers | min, numbers | max, [] | min is undefined, ['b', 'A'] | max
numbers | reverse | list, 'abc' | reverse, numbers | batch(2) | list, numbers | batch(3, 0) | list
[1, 'a', none] | map('string') | list, [' a ', 'b '] | map('trim') | list, messages | map(attribute='content') | list, messages | map(attribute='nope', default='d') | list
['a', 'b'] | map('replace', 'a', 'x') | list, [3, -1] | map('abs') | list, ['x'] | map('upper') | join
numbers | select('odd') | list, numbers | reject('even') | list, [0, 1, '', 'a'] | select | list, numbers | select('gt', 2) | list, [1, none] | reject('none') | list
messages | selectattr('role', 'equalto', 'user') | list | length, messages | selectattr('n') | list | length, messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list
messages | selectattr('role', 'in', ['user', 'system']) | map(attribute='content') | join('/'), messages | selectattr('nope', 'defined') | list, none | selectattr('x') | list
(numbers | select('odd')) is iterable, (numbers | select('odd')) is sequence, (numbers | map('abs')) is string
'Hello' | upper, 'Hello' | lower, 'hello world' | title, "it's o'clock-time (now)" | title, 'hELLO' | capitalize, ' x ' | trim ~ '|', 'xax' | trim('x')
'a\nb\n\nc' | indent, 'a\nb' | indent(2, true), 'a\n\nb' | indent(2, blank=true), 'a\nb' | indent('> ', first=True), '' | indent
'hello' | replace('l', 'L', 1), 12 | replace('1', 'x'), 'ab' | center(7) ~ '|', 'abc' | center(6) ~ '|'
'42' | int, '4.9' | int, 'x' | int, 'x' | int(7), 'x' | int(3, 99), '0x1f' | int(0, 16), ' 12 ' | int, none | int, 3.9 | int, -3.9 | int, true | int, '-5' | int
'1.5' | float, 'x' | float, 2 | float, '1e3' | float, none | float(1.0), 'inf' | float, '-2' | float
-3 | abs, -3.5 | abs, 3.456 | round(2), 2.5 | round, 3.5 | round, 2.1 | round(0, 'ceil'), 2.9 | round(method='floor'), 7 | round
1 | string ~ 2, none | string, 'x' | safe ~ '<', '<b>' | escape, '<b>' | e | string, ('a' | safe) + '<b>', '"\'&' | e
numbers | list, 'abc' | list, message | list, message | items | list, {} | items | list, missing | items | list
message | tojson, numbers | tojson, 'é"\n<&>\'\u2028🚉' | tojson, 'é🚉\x7f' | tojson(ensure_ascii=true), none | tojson, true | tojson, 1.0 | tojson, {1: none, true: 1.5, none: ''} | tojson
nested | tojson(indent=2), [] | tojson(indent=2), {} | tojson(indent=4), [1, [2, []]] | tojson(indent=1), nested | tojson(separators=(',', ':')), nested | tojson(sort_keys=true, indent='-')
{'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true), {'x': (1, 2)} | tojson, '{"a": [1, 2.5, null]}' | from_json
1 is odd, 2 is even, 6 is divisibleby(3), 6 is divisibleby 4, 1 is number, 1.0 is float, 1 is integer, true is integer, true is number, true is boolean
'a' is string, none is none, none is not none, {} is mapping, [] is sequence, 'a' is sequence, {} is sequence, 1 is sequence, missing is sequence, {}.items() is sequence
[] is iterable, 1 is iterable, 'a' is iterable, none is iterable, missing is iterable, true is true, 1 is true, false is false, 0 is false
1 is eq 1, 1 is equalto(2), 1 is ne 2, 1 is lt 2, 2 is ge 2, 3 is gt(2), 'a' is in ['a'], 'a' is in 'cat', 1 is sameas 1, none is sameas none, 1 is not eq 1
'abc' is lower, 'ABC' is upper, 'aB' is lower, '' is lower, 'upper' is filter, 'nope' is filter, 'odd' is test, range is callable, text is callable, namespace is defined, raise_exception is defined
1 is defined and missing is not defined or false, not missing is defined, 1 if missing is defined else 2
-1 | abs, (-1) | abs, 1 + 2 | string | length, 'a' ~ 'b' | upper, 2 * 3 | string
{'a': {'b': 1}}['a'].b, [[1, 2], [3]][0][1], 'x'.upper().lower() | upper, {'f': 'g'}['f'][0]
dict(a=1, b=2), dict({'a': 1}, b=2), dict() | length
strftime_now('%d %b %Y'), strftime_now('%Y-%m-%d %H:%M:%S'), strftime_now('%A, %B %-d, %j'), strftime_now('%I:%M %p %y %%')
namespace(a=1).a, namespace({'x': 2}).x, namespace().y is defined, namespace({'x': 2}, z=3).z
(1), (1,), ((1, 2), 3), [], {}, [1,], {'a': 1,}
messages[-1].role, messages[1:] | length, messages[::-1][0].content, (messages | last).role, messages | map(attribute='role') | list
'é🚉ab'[1], 'é🚉ab'[::-1], 'é🚉ab'[1:3], 'ÉÀ' == 'ÉÀ', 'é' < 'z'
' a'.strip is defined, 'a'.nope is defined, [1].append is defined, {'append': 1}.append, none.x is defined, (1).x is defined
9223372036854775807, -9223372036854775807 - 1, 4611686018427387904 * 1
1 == true, {1: 'a'}[true], [1, 2] == [1, 2], [1] == (1,), {'a': 1} == {'a': 1.0}, range(2) == range(2), 'a' != 'b'
"</think>" in text, text.split('</think>')[-1].lstrip('\n'), text.split('</think>')[0].rstrip('\n').split('<think>')[-1]
"""

# What Python refuses as well.
REFUSED = r"""
missing.x
missing + 1
missing['x']
missing()
-missing
1 + 'a'
'a' + 1
none + 1
[1] + (1,)
1 < 'a'
none < 1
1 // 0
1 % 0
1.0 / 0
1 in 1
1 in 'a'
none | list
1 | length
none.x.y
'%d' % 'x'
'%s %s' % 'x'
'%s' % ('a', 'b')
'{}'.format()
'{0'.format(1)
numbers | sum(attribute='x') + missing
[1, 'a'] | sort
[1].append(2)
message.pop('role')
message.update({})
raise_exception('no')
range(1, 2, 0)
range(1000000)
{[1]: 2}
(numbers | select('odd')) | length
'a'.split('')
1()
message | tojson(1, 2, 3, 4, 5)
missing | tojson
namespace(1)
[1, 2] | map('nope') | list
[1, 2] | select('nope') | list
1 is divisibleby 0
'ab'.index('c')
"""

# Whole templates.
TEMPLATES = {
    "text": "a {b} { c } {x",
    "newline at the end": "a\n",
    "two newlines at the end": "a\n\n",
    "carriage returns": "a\r\nb\rc{% if true %}\r\nd{% endif %}\r\n",
    "trim_blocks": "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "trim_blocks takes one newline": "{% if true %}\n\n  b{% endif %}\n\nc",
    "lstrip_blocks": "  {% if true %}\n    b\n  {% endif %}\n  c",
    "lstrip not behind text": "a  {% if true %}b{% endif %}",
    "lstrip tabs": "x\n\t {% if true %}b{% endif %}",
    "lstrip behind a tag": "{% if true %}  {% if true %}b{% endif %}{% endif %}",
    "lstrip behind a newline eaten": "{% if true %}\n  {% if true %}b{% endif %}{% endif %}",
    "output is not lstripped": "  {{ 1 }}\n  {{ 2 }}\n",
    "minus": "a \n {%- if true -%} \n b \n {%- endif -%} \n c",
    "minus in output": "a \n {{- 1 -}} \n b",
    "minus on one side": "a  {%- if true %}  b  {% endif -%}  c",
    "plus": "a\n  {%+ if true %}\n b\n  {%+ endif +%}\n c",
    "plus in output": "a {{+ 1 }} b",
    "minus takes all white space": "a\u00a0\u3000\n{{- 1 -}}\u2003\n b",
    "comment": "a{# b #}c{# {{ x }} {% if %} #}d",
    "comment trims": "a\n{# b #}\nc\n  {# d #}\n e",
    "comment minus": "a  {#- b -#}  c{#-#}  d",
    "comment plus": "a\n  {#+ b +#}\nc",
    "raw": "{% raw %}{{ x }} {% if %}{# c #}{% endraw %}",
    "raw white space": "a\n  {% raw %}\n  b\n  {% endraw %}\n c",
    "raw minus": "a {%- raw -%}  b  {%- endraw -%} c",
    "raw plus": "a\n  {%+ raw %}\n b {% endraw +%}\nc",
    "braces in expressions": "{{ {'a': {'b': 1}}['a']['b'] }}{{ '}}' }}{{ \"%}\" }}{{ {'a': 1}}}",
    "tight": "{{1}}{%if 1%}x{%endif%}{{-1}}{{ -1 }}{{'a'}}",
    "tags over lines": "{%\nif\n1\n%}\nx\n{%\nendif\n%}\ny{{\n1\n+\n2\n}}",
    "if": "{% for i in [0, 1, 2, 3] %}{% if i == 0 %}a{% elif i == 1 %}b{% elif i == 2 %}c{% else %}d{% endif %}{% endfor %}",
    "if with colon": "{% if true: %}a{% endif %}",
    "for": "{% for x in numbers %}{{ x }},{% endfor %}",
    "for else": "{% for x in [] %}{{ x }}{% else %}none{% endfor %}{% for x in [1] %}{{ x }}{% else %}none{% endfor %}",
    "for if": "{% for x in numbers if x is odd %}{{ loop.index }}:{{ x }}{{ ',' if not loop.last }}{% else %}none{% endfor %}",
    "for over text, mapping, nothing": "{% for c in 'aé🚉' %}[{{ c }}]{% endfor %}{% for k in message %}{{ k }} {% endfor %}{% for x in missing %}x{% endfor %}",
    "for unpacks": "{% for k, v in message.items() %}{{ k }}={{ v }};{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a + b + c }}{% endfor %}",
    "for over a tuple": "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}",
    "loop": "{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.cycle('x', 'y') }} {% endfor %}",
    "loop of a loop": "{% for x in 'ab' %}{% set outer = loop %}{% for y in 'cd' %}{{ outer.index }}{{ loop.index }}{{ loop.depth }} {% endfor %}{{ loop.index }}{% endfor %}",
    "loop neighbours": "{% for m in messages %}{% if loop.previtem is defined and loop.previtem.role == m.role %}same{% endif %}{{ loop.nextitem.role if loop.nextitem is defined else 'end' }} {% endfor %}",
    "break and continue": "{% for x in numbers %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}!",
    "break of the inner loop": "{% for x in 'ab' %}{% for y in 'cd' %}{{ x }}{{ y }}{% break %}{% endfor %}{% endfor %}",
    "set": "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}",
    "set in a loop stays there": "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}",
    "set in if goes out": "{% if true %}{% set x = 1 %}{% endif %}{{ x }}{% if false %}{% set y = 1 %}{% endif %}{{ y is defined }}",
    "set block": "{% set x %}a{{ 1 }}\n{% endset %}[{{ x }}]{% set y | upper | trim %} abc {% endset %}[{{ y }}]",
    "set block has its own names": "{% set x %}{% set z = 1 %}{{ z }}{% endset %}{{ x }}{{ z is defined }}",
    "set hides what was given": "{{ text | length }}{% set text = 'x' %}{{ text }}",
    "namespace": "{% set ns = namespace(n=0, found=false) %}{% for x in numbers %}{% set ns.n = ns.n + x %}{% if x == 3 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }}{{ ns.found }}{{ ns.nope is defined }}{% set ns.new = [1] %}{{ ns.new }}{{ ns['n'] }}",
    "namespace set block": "{% set ns = namespace() %}{% set ns.x %}abc{% endset %}{{ ns.x }}",
    "macro": "{% macro greet(name, mark='!') %}Hi {{ name }}{{ mark }}{% endmacro %}{{ greet('A') }} {{ greet('B', '?') }} {{ greet(name='C', mark='.') }} {{ greet() }}",
    "macro white space": "{% macro m() %}\n  a\n{% endmacro %}\n[{{ m() }}][{{ m() | trim }}]",
    "macro recursion": "{%- macro depth(x) -%}{%- if x is mapping -%}{%- for k, v in x.items() -%}<{{ k }}>{{ depth(v) }}</{{ k }}>{%- endfor -%}{%- elif x is sequence and x is not string -%}[{%- for v in x -%}{{ depth(v) }}{{ ',' if not loop.last }}{%- endfor -%}]{%- else -%}{{ x }}{%- endif -%}{%- endmacro -%}{{ depth(nested) }}",
    "macro sees later names": "{% macro a() %}{{ b() }}{{ y }}{% endmacro %}{% macro b() %}B{% endmacro %}{% set y = 2 %}{{ a() }}",
    "macro does not see the loop": "{% macro m() %}{{ loop is defined }}{{ x is defined }}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}",
    "macro sets stay inside": "{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q is defined }}",
    "macro defaults see earlier ones": "{% macro m(a, b=a * 2, c=b + 1) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, c=9) }}",
    "macro varargs and kwargs": "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}{{ m(1) }}",
    "macro changes a namespace": "{% set ns = namespace(n=1) %}{% macro m() %}{% set ns.n = ns.n + 1 %}{% endmacro %}{{ m() }}{{ m() }}{{ ns.n }}",
    "macro in a loop": "{% for x in [1, 2] %}{% macro m(y) %}{{ x }}{{ y }}{% endmacro %}{{ m(x) }}{% endfor %}",
    "macro in a variable": "{% macro m(x) %}<{{ x }}>{% endmacro %}{% set f = m %}{{ f(1) }}{{ f is callable }}",
    "call": "{% macro box(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call box('x') %}in{{ 1 }}{% endcall %}",
    "call with arguments": "{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(v, i) each([7, 8]) %}({{ i }}={{ v }}){% endcall %}",
    "caller is defined": "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
    "filter block": "{% filter upper %}abc {{ text | length }}{% endfilter %}{% filter trim | replace('a', 'b') %} a {% endfilter %}",
    "with": "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}{% with %}{% set c = 1 %}{{ c }}{% endwith %}{{ c is defined }}",
    "generation": "a{% generation %}\nb{{ 1 }}\n{% endgeneration %}\nc{% generation %}{% set x = 1 %}{% endgeneration %}{{ x is defined }}",
    "generator is read once": "{% set g = numbers | select('odd') %}{% for x in g %}{{ x }}{% endfor %}|{% for x in g %}{{ x }}{% endfor %}|{{ g | list }}",
    "first of a generator": "{% set g = numbers | select %}{{ g | first }}{{ g | first }}{{ g | list }}",
    "chained tests": "{{ 'x' is defined and 'x' is string and not 'x' is mapping }}",
    "undefined prints nothing": "[{{ missing }}][{{ message.nope }}][{{ messages[0].nope }}][{{ none }}]",
    "tools": "{% if tools %}{{ tools | length }}{% else %}no tools{% endif %}{{ tools is none }}{{ documents is defined }}",
    "tokens": "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}",
}

# What cannot be loaded: Python says so when it compiles.
BAD = {
    "tag without end": "a {% if x",
    "output without end": "a {{ x",
    "if without endif": "{% if x %}a",
    "endif alone": "a\n{% endif %}",
    "for without in": "{% for x %}{% endfor %}",
    "unknown tag": "a\n\n{% frobnicate %}",
    "unknown filter": "a\n{{ x | frobnicate }}",
    "unknown test": "a\n{{ x is frobnicated }}",
    "text without end": "{{ 'a }}",
    "wrong bracket": "{{ [1) }}",
    "open bracket": "{{ [1 }}",
    "operator without operand": "{{ 1 + }}",
    "two values": "{{ 1 2 }}",
    "empty output": "{{ }}",
    "comment without end": "a {# b",
    "raw without end": "{% raw %} b",
    "assignment to a number": "{% set 1 = 2 %}",
    "assignment to none": "{% set none = 2 %}",
    "macro without name": "{% macro () %}{% endmacro %}",
    "named before unnamed": "{{ range(a=1, 2) }}",
    "default before none": "{% macro m(a=1, b) %}{% endmacro %}",
    "else twice": "{% if 1 %}{% else %}{% else %}{% endif %}",
    "strange character": "{{ a ? b }}",
    "short escape": "{{ '\\x4' }}",
    "call of no call": "{% call x %}{% endcall %}",
    "break outside": "{% break %}",
}

VALUES = {
    "text": "<think>\nhm, é\n</think>\n\nYes. 🚉",
    "numbers": [3, 1, 4, 1, 5],
    "message": {"role": "user", "content": "Hello"},
    "schema": {"type": "array", "items": {"type": "string"}},
    "nested": {"a": {"b": [1, {"c": "x<y"}]}, "k": None, "é": [True, 1.5, []]},
}
MESSAGES = [{"role": "system", "content": "b", "n": 1}, {"role": "user", "content": "a", "n": 2},
            {"role": "user", "content": "c", "n": 3}]

# Templates written in the manner of well-known ones.
CHATS = {
    "chatml": """{% for message in messages %}
{% if loop.first and message.role != 'system' %}
{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{% endif %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{% endif %}
""",
    "headers": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\nToday: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {{- "Functions, as JSON:\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + "<|eot|>" }}
{%- for message in messages %}
    {%- if 'tool_calls' in message and message.tool_calls %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start|>assistant<|end|>\\n\\n{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}<|eot|>" }}
    {%- elif message.role == "tool" %}
        {{- "<|start|>ipython<|end|>\\n\\n" }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- else %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
""",
    "instructions": """{%- if messages and messages[0].role == "system" %}
    {%- set system = messages[0].content %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- set ns = namespace(index=0) %}
{%- for message in turns if message.role != "tool" and not message.tool_calls %}
    {%- if (message.role == "user") != (ns.index % 2 == 0) %}
        {{- raise_exception("Roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for message in turns %}
    {%- if message.role == "user" %}
        {%- if tools is not none and loop.last %}
            {{- "[TOOLS] [" }}
            {%- for tool in tools %}
                {%- for key, val in tool.function.items() if key != "return" %}
                    {{- (', ' if not loop.first) ~ '"' ~ key ~ '": ' ~ val | tojson }}
                {%- endfor %}
                {{- "}, " if not loop.last else "]" }}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system is defined %}
            {{- "[INST] " + system + "\\n\\n" + message.content + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message.content + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS] [" }}
        {%- for call in message.tool_calls %}
            {%- set out = call.function | tojson %}
            {{- out[:-1] }}
            {{- ', "id": "' ~ call.id[-9:] ~ '"}' }}
            {{- ", " if not loop.last else "]" + eos_token }}
        {%- endfor %}
    {%- elif message.role == "assistant" %}
        {{- " " + message.content | trim + eos_token }}
    {%- elif message.role in ["tool", "tool_results"] %}
        {{- '[RESULTS] {"content": ' ~ message.content | string ~ ', "id": "' ~ message.tool_call_id ~ '"}[/RESULTS]' }}
    {%- else %}
        {{- raise_exception("unknown role: " ~ message.role) }}
    {%- endif %}
{%- endfor %}
""",
    "thinking": """{%- macro text_of(content) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for item in content %}
            {%- if item.type == 'text' %}{{- item.text }}{%- else %}{{- '<|' ~ item.type ~ '|>' }}{%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- endif %}
{%- endmacro %}
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- text_of(messages[0].content) + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages and messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + text_of(messages[0].content) + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- set content = text_of(message.content) %}
    {%- if ns.multi_step_tool and message.role == "user" and not (content.startswith('<tool_response>') and content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = text_of(message.content) %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if (loop.first and content) or not loop.first %}{{- '\\n' }}{%- endif %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
}
