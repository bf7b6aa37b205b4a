-- Writes the settings and the state of a namespace: at its coordinator shard first, then in all others.
--
-- KEYS  seq
-- ARGV  1 namespace  2 'home' (at the coordinator shard) or 'take' (in another one)
--       3 home: number:version that the caller has read, or '' for none; take: the number
--       4 home: number of this shard; take: the version
--       then name and value of each field; 'now' for a time is the time of this call, '' removes the field.
--       Some fields are for this script.
--       home: '@shards': number of shards; '@tag': 20 random bits, so that no number is used twice; '@above': version to
--       exceed, which also begins new allocations; '@num': number of a namespace whose record is restored; '@max': most
--       namespaces
--       take: '@deal_pending', '@deal_dead': versions that name the allocations of the limits
--       then, in place of fields, 'done' alone: the other shards have taken this version
-- reply DONE now number version deal_pending deal_dead | AGAIN now (the namespace has changed) |
--       OLD now number (take: an ended namespace of this name must be removed first) |
--       LIMIT now (there are as many namespaces as allowed) |
--       AHEAD now version (take: this shard has seen another change of this or a later version)
expect_marker()
local name, home = ARGV[1], ARGV[2] == 'home'
local num, ver, new
local unfinished = K .. 'todo'
if ARGV[5] == 'done' then
  if call('HGET', K .. 'n:' .. ARGV[3], 'ver') == ARGV[4] then
    write('ZREM', unfinished, 'put' .. NUL .. name)
  end
  flush()
  return { 'DONE', digits(now), ARGV[3], ARGV[4] }
end
local fields = { paused = '0', resumes = '' }
for i = 5, #ARGV, 2 do
  if ARGV[i + 1] == 'now' then ARGV[i + 1] = digits(now) end
  fields[ARGV[i]] = ARGV[i + 1]
end
local taken = tonumber(call('HGET', K .. 'vers', name) or '0')
local above = tonumber(fields['@above'] or '')
if home then
  num = call('HGET', K .. 'nn', name)
  local seen = ''
  if num then seen = num .. ':' .. call('HGET', K .. 'n:' .. num, 'ver') end
  -- A late restore does not revive a number whose end is recorded.
  local is_ended = call('HEXISTS', K .. 'ends', fields['@num'] or '') == 1
  if seen ~= ARGV[3] or is_ended then return unchanged('AGAIN', now_text) end
  ver = math.max(taken, above or 0) + 1
  new = not num
  local max = tonumber(fields['@max'] or '') or math.huge
  if new and call('ZCARD', K .. 'names') >= max then return unchanged('LIMIT', now_text) end
  if new and fields['@num'] then
    num = fields['@num']
  elseif new then
    local count = tonumber(call('GET', K .. 'nums') or '0') + 1
    write('SET', K .. 'nums', count)
    num = ARGV[4] .. '.' .. digits(count * 1048576 + tonumber(fields['@tag']))
  end
else
  num, ver = ARGV[3], tonumber(ARGV[4])
  local old = call('HGET', K .. 'nn', name)
  if ver <= taken then
    -- The same version may be another change, which the coordinator shard has lost since (namespaces.rs).
    local same = ver == taken and old == num and call('HGET', K .. 'n:' .. num, 'updated') == fields.updated
    if not same then return unchanged('AHEAD', now_text, digits(taken)) end
    return unchanged('DONE', now_text, num, digits(ver))
  end
  if old and old ~= num then return unchanged('OLD', now_text, old) end
end
local key = K .. 'n:' .. num
-- A changed retention counts for every tombstone that is kept. Those that are over stay over under a longer retention.
local before, retention = tonumber(call('HGET', key, 'retention') or ''), tonumber(fields.retention or '')
if before and retention and before ~= retention then
  if retention > before then
    -- A timer may still end in this millisecond, under the longer retention.
    local over = math.max(now - math.max(before, 1), tonumber(call('HGET', key, 'over') or '0'))
    write('HSET', key, 'over', digits(over))
  end
  local last = call('LINDEX', K .. 'sl:' .. num, -1)
  local ends = last and time_at(last, 1) + retention
  for _, source in ipairs({ 's:' .. num, 'sl:' .. num }) do
    if ends and ends <= now then
      write('UNLINK', K .. source)
    elseif ends then
      write('PEXPIREAT', K .. source, digits(ends))
    end
  end
end
for i = 5, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if sub(field, 1, 1) == '@' then
    -- It is for this script.
  elseif value == '' then
    write('HDEL', key, field)
  else
    write('HSET', key, field, value)
  end
end
-- A lowered limit gets a new allocation (quota.rs); until then no shard has a quota of it. The even split is right in a
-- new namespace, and in a deployment of one shard.
local deals = {}
for i, kind in ipairs({ 'pending', 'dead' }) do
  local f = call('HMGET', key, 'deal_' .. kind, 'max_' .. kind)
  local old, max = f[1], tonumber(fields['max_' .. kind])
  local deal = fields['@deal_' .. kind]
  if home then
    local is_lower = max and max < (tonumber(f[2] or '') or math.huge)
    if (new and not above) or fields['@shards'] == '1' then
      deal = '0'
    elseif is_lower or above or not old then
      deal = digits(ver)
    else
      deal = old
    end
  end
  deals[i] = deal
  if deal ~= old then
    write('HSET', key, 'deal_' .. kind, deal)
    write('UNLINK', K .. 'q:' .. num .. ':' .. kind)
    write('HSET', key, 'm_' .. kind, deal == '0' and '0' or '-')
  end
end
write('HSET', key, 'name', name, 'ver', digits(ver))
write('HSET', K .. 'vers', name, digits(ver))
write('HSET', K .. 'nn', name, num)
write('ZADD', K .. 'names', 0, name)
-- An implicit namespace stores the time of its creation; any later change has another time.
if home and fields.implicit then
  if fields.implicit == '' then
    write('ZREM', K .. 'implicit', name)
  else
    write('ZADD', K .. 'implicit', 0, name)
  end
end
-- Any node that finds this entry at the coordinator shard finishes an unfinished change.
if home then write('ZADD', unfinished, 0, 'put' .. NUL .. name) end
if fields.paused == '1' and fields.resumes ~= '' then
  write('ZADD', K .. 'resume', fields.resumes, num)
else
  write('ZREM', K .. 'resume', num)
end
write('SPUBLISH', K .. 'wake', '')
flush()
return { 'DONE', digits(now), num, digits(ver), deals[1], deals[2] }
