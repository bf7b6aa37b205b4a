-- Lists implicit namespaces at their coordinator shard, and notes since when each is idle.
--
-- KEYS  seq
-- ARGV  1 'page'  2 name to begin after, or ''  3 most
--       or 1 'note'  2 name  3 number  4 count of its uses in all shards, or '' if it is not idle
-- reply page: now, last name of the page or '' at the end, then for each: name, number
--       note: now, time since which it is idle, or '' if it is not
expect_marker()
if ARGV[1] == 'note' then
  local key, uses = K .. 'n:' .. ARGV[3], ARGV[4]
  local since, seen = match(call('HGET', key, 'idle') or '', '^(%d+) (%d+)$')
  if call('HGET', K .. 'nn', ARGV[2]) ~= ARGV[3] or not is_implicit(ARGV[3]) or uses == '' then
    if since then write('HDEL', key, 'idle') end
    since = ''
  elseif seen ~= uses then
    since = now_text
    write('HSET', key, 'idle', since .. ' ' .. uses)
  end
  flush()
  return { now_text, since }
end
local out = { now_text, '' }
local names = names_after('implicit', ARGV[2], ARGV[3])
for _, name in ipairs(names) do
  local num = call('HGET', K .. 'nn', name)
  if num and is_implicit(num) then
    out[#out + 1] = name
    out[#out + 1] = num
  else
    write('ZREM', K .. 'implicit', name)
  end
end
if #names == tonumber(ARGV[3]) then out[2] = names[#names] end
flush()
return out
