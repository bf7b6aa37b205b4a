# frozen_string_literal: true

# A small client of Duly, written from the HTTP reference (../http.md) alone. Standard library only;
# Ruby 3.0 or newer.
#
#     require_relative "duly"
#     shop = Duly.new("http://127.0.0.1:3859").namespace("shop")
#     shop.schedule(id: "order-1041", delay: "15m", payload: { order: 1041 })

require "erb"
require "json"
require "net/http"
require "uri"

# A server.
class Duly
  # Attempts of one call, the first included.
  ATTEMPTS = 5
  # Longest wait for a response: a lease call waits for up to 60 s.
  TIMEOUT_S = 75

  # A refusal: `code` decides what to do, `message` is for people.
  class Problem < StandardError
    attr_reader :fields

    def initialize(fields)
      super(fields["detail"])
      @fields = fields
    end

    def code = fields["code"]

    # How long to wait before the same call is repeated; none if that does not help.
    def wait_s
      return fields["retry_after_ms"] / 1000.0 if fields["retry_after_ms"]

      0 if %w[aborted deadline_exceeded].include?(code)
    end
  end

  # Called with each problem after which a call is repeated.
  attr_accessor :on_repeat

  def initialize(url)
    @url = URI(url)
  end

  def namespace(name) = Namespace.new(self, name)

  # Makes a call, repeats it where that helps, and returns the response. `path` is encoded.
  def call(method, path, body: nil, query: {})
    (1..).each do |attempt|
      return once(method, path, body, query)
    rescue Problem => problem
      raise if problem.wait_s.nil? || attempt == ATTEMPTS

      on_repeat&.call(problem)
      sleep(problem.wait_s)
    end
  end

  private

  def once(method, path, body, query)
    path += "?#{URI.encode_www_form(query)}" unless query.empty?
    request = Net::HTTP.const_get(method.capitalize).new(path)
    if body
      request.content_type = "application/json"
      request.body = JSON.generate(body)
    end
    http = Net::HTTP.new(@url.host, @url.port)
    http.use_ssl = @url.scheme == "https"
    http.read_timeout = TIMEOUT_S
    response = http.request(request)
    read = response.body.to_s.empty? ? nil : JSON.parse(response.body)
    response.is_a?(Net::HTTPSuccess) ? read : raise(Problem, read)
  end

  # The timers of one namespace.
  class Namespace
    def initialize(server, name)
      @server = server
      @path = "/v1/namespaces/#{name}"
    end

    def put(settings) = @server.call("PUT", @path, body: settings)

    def schedule(timer) = post("/timers", timer)

    def get(id) = @server.call("GET", timer(id))

    # Each field replaces the timer's; `nil` resets it.
    def change(id, fields) = @server.call("PATCH", timer(id), body: fields)

    def cancel(id, if_revision: nil)
      @server.call("DELETE", timer(id), query: { if_revision: if_revision }.compact)
    end

    # Yields every timer that fits, page by page. A page may be empty and still have a cursor.
    def each_timer(**filter)
      return to_enum(:each_timer, **filter) unless block_given?

      loop do
        page = @server.call("GET", "#{@path}/timers", query: filter)
        page["timers"].each { |timer| yield timer }
        break unless page["cursor"]

        filter[:cursor] = page["cursor"]
      end
    end

    # One result for each operation: a timer, an outcome or an error.
    def batch(operations) = post("/batch", { operations: operations })["results"]

    # The firings that are due, or none after `wait`.
    def lease(max: 1, wait: "0s", lease: nil)
      post("/lease", { max: max, wait: wait, lease: lease }.compact)["firings"]
    end

    # One result for each settlement, `[{ token:, ack: {} }, …]`.
    def settle(settlements) = post("/settle", { settlements: settlements })["results"]

    private

    def post(call, body) = @server.call("POST", @path + call, body: body)

    def timer(id) = "#{@path}/timers/#{ERB::Util.url_encode(id)}"
  end
end
