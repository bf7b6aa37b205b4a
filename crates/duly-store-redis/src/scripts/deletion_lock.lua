-- Takes, releases or reads the deletion lock of a namespace in this shard. While the lock is held, the namespace
-- cannot hold more in this shard, and the caller checks whether it is empty everywhere. See ending.rs.
--
-- KEYS  seq
-- ARGV  1 namespace  2 number  3 'close' (take), 'open' (release) or 'look' (read)  4 id of the caller's lock
--       5 ms after which a lock expires
-- reply NONE now (this shard has no such namespace) | OPEN now (no lock) |
--       SHUT now pending dead (close: the caller holds the lock) |
--       HELD now id_of_the_lock, '1' if it has expired, or ends later than any lock can after a step back of the clock
local name, num, what, who = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local here = num_of(name) == num
local gate = here and call('HGET', K .. 'n:' .. num, 'gate')
local till, whose = match(gate or '', '^(%d+) (%x+)$')
local pending = call('HGET', K .. 'c:' .. num, 'pending') or '0'
local dead = call('ZCARD', K .. 'dead:' .. num)
if here and what == 'open' and whose == who then
  write('HDEL', K .. 'n:' .. num, 'gate')
  write('SPUBLISH', K .. 'wake', '')
  whose = nil
elseif here and what == 'close' and not whose then
  write('HSET', K .. 'n:' .. num, 'gate', digits(now + tonumber(ARGV[5])) .. ' ' .. who)
  whose = who
end
flush()
if not here then return { 'NONE', digits(now) } end
if not whose then return { 'OPEN', digits(now) } end
if what == 'close' and whose == who then return { 'SHUT', digits(now), pending, dead } end
local lasts = tonumber(till) - now
return { 'HELD', digits(now), whose, (lasts <= 0 or lasts > tonumber(ARGV[5])) and '1' or '0' }
