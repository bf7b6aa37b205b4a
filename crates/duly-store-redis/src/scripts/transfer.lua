-- Transfers parts of a limit: receives what other shards sent, and sends unused quota to others. Both are kept as
-- running totals of the allocation, so a repeated or late call changes nothing (quota.rs).
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 'pending' or 'dead'  4 version that names the allocation  5 number of sending shards
--       then for each of them: shard, total that it sent  then for each receiving shard: shard, most to send
-- reply OTHER now (there is another allocation, or none yet) |
--       OK now, then for each receiving shard: total that was sent to it
local num, kind = ARGV[2], ARGV[3]
local q = quota_of(num, kind)
if num_of(ARGV[1]) ~= num or q.deal ~= ARGV[4] or not q.moved or not q.share then
  return unchanged('OTHER', now_text)
end
local gifts_from = 6 + 2 * tonumber(ARGV[5])
local moved, totals = q.moved, {}
local function total_of(field)
  totals[field] = totals[field] or tonumber(call('HGET', q.key, field) or '0')
  return totals[field]
end
for i = 6, gifts_from - 1, 2 do
  local field, total = '<' .. ARGV[i], tonumber(ARGV[i + 1])
  local news = total - total_of(field)
  if news > 0 then
    moved, totals[field] = moved + news, total
    write('HSET', q.key, field, digits(total))
  end
end
-- Wakes what stalled at the limit.
if moved > q.moved then write('SPUBLISH', K .. 'wake', '') end
local out = { 'OK', digits(now) }
for i = gifts_from, #ARGV, 2 do
  local unused = math.max(q.share + moved - q.used, 0)
  local gift = math.min(tonumber(ARGV[i + 1]), unused)
  local field = '>' .. ARGV[i]
  local total = total_of(field) + gift
  if gift > 0 then
    moved, totals[field] = moved - gift, total
    write('HSET', q.key, field, digits(total))
  end
  out[#out + 1] = digits(total)
end
if moved ~= q.moved then write('HSET', K .. 'n:' .. num, 'm_' .. kind, digits(moved)) end
flush()
return out
