-- Cancels a timer that is not leased (P4).
--
-- KEYS  seq
-- ARGV  1 namespace  2 id
-- reply now, then CANCELLED core | NONE (no such namespace) | SLOW (any other case: the caller takes the slow path)
local name, id = ARGV[1], ARGV[2]
local num = num_of(name)
if not num then return { digits(now), 'NONE' } end
local ctl = control(num)
local record = call('HGET', K .. 'r:' .. num, id)
local slow = not record or call('HEXISTS', K .. 'x:' .. num, id) == 1
if not slow and may_expire(record) then
  local expires = call('ZSCORE', K .. 'exp', num .. NUL .. id)
  slow = expires and tonumber(expires) < now
end
if slow then return unchanged(now_text, 'SLOW') end

local core = core_of(record)
uproot(num, id, record, '')
write('HDEL', K .. 'r:' .. num, id)
write('HDEL', K .. 'p:' .. num, id)
write('HINCRBY', K .. 'c:' .. num, 'cancelled', 1)
keep_tombstone(ctl, id, 'C', 'C' .. time_bytes(now) .. NUL .. core)
flush()
return { digits(now), 'CANCELLED', core }
