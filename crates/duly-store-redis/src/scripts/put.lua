-- Writes what is fixed for a namespace: at its home shard first, then in all others.
--
-- KEYS  seq
-- ARGV  1 namespace  2 'home' or 'take'  3 home: number:version that was seen, or '' for none;
--       take: the number  4 home: number of this shard; take: the version
--       then name and value of each field; 'now' for a time is the time of this step, '' removes
--       then, in place of fields, 'done' alone: the other shards have taken this version
-- reply DONE now number version | AGAIN now (something else was there) |
--       OLD now number (take: a namespace of this name that has ended elsewhere is to go first)
local name, home = ARGV[1], ARGV[2] == 'home'
local num, ver
local unfinished = K .. 'todo'
if ARGV[5] == 'done' then
  if call('HGET', K .. 'n:' .. ARGV[3], 'ver') == ARGV[4] then
    write('ZREM', unfinished, 'put' .. NUL .. name)
  end
  flush()
  return { 'DONE', digits(now), ARGV[3], ARGV[4] }
end
local taken = tonumber(call('HGET', K .. 'vers', name) or '0')
if home then
  num = call('HGET', K .. 'nn', name)
  local seen = ''
  if num then seen = num .. ':' .. call('HGET', K .. 'n:' .. num, 'ver') end
  if seen ~= ARGV[3] then
    call('INCR', KEYS[1])
    return { 'AGAIN', digits(now) }
  end
  ver = taken + 1
  if not num then
    local count = tonumber(call('GET', K .. 'nums') or '0') + 1
    write('SET', K .. 'nums', count)
    num = ARGV[4] .. '.' .. count
  end
else
  num, ver = ARGV[3], tonumber(ARGV[4])
  if ver <= taken then
    call('INCR', KEYS[1])
    return { 'DONE', digits(now), num, digits(ver) }
  end
  local old = call('HGET', K .. 'nn', name)
  if old and old ~= num then
    call('INCR', KEYS[1])
    return { 'OLD', digits(now), old }
  end
end
local fields = { paused = '0', resumes = '' }
local key = K .. 'n:' .. num
for i = 5, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if value == 'now' then value = digits(now) end
  fields[field] = value
  if value == '' then
    write('HDEL', key, field)
  else
    write('HSET', key, field, value)
  end
end
write('HSET', key, 'name', name, 'ver', digits(ver))
write('HSET', K .. 'vers', name, digits(ver))
write('HSET', K .. 'nn', name, num)
write('ZADD', K .. 'names', 0, name)
-- Whoever finds this at home finishes what was left half done.
if home then write('ZADD', unfinished, 0, 'put' .. NUL .. name) end
if fields.paused == '1' and fields.resumes ~= '' then
  write('ZADD', K .. 'resume', fields.resumes, num)
else
  write('ZREM', K .. 'resume', num)
end
write('SPUBLISH', K .. 'wake', '')
flush()
return { 'DONE', digits(now), num, digits(ver) }
