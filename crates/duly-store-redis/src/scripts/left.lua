-- What of the end of a namespace is left to do in the other shards, as its home tells.
--
-- KEYS  seq
-- ARGV  1 namespace
-- reply now, then number and version of the end if there is one
local from = 'gone' .. NUL .. ARGV[1] .. NUL
local found = call('ZRANGEBYLEX', K .. 'todo', '[' .. from, '(' .. from .. char(255), 'LIMIT', 0, 1)[1]
if not found then return { now_text } end
local num, ver = match(sub(found, #from + 1), '^([^%z]*)%z(%d+)$')
return { now_text, num, ver }
